/** The icons of the buttons, SVG drawings of 24 by 24 units in the colour of the text. */
import { picture } from './dom'

const line = (path: string) =>
  `<path d="${path}" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" stroke-linejoin="round"/>`
const STAR = 'M12 2.6l2.9 5.9 6.5.9-4.7 4.6 1.1 6.5-5.8-3.1-5.8 3.1 1.1-6.5L2.6 9.4l6.5-.9z'

const ICONS = {
  play: '<path d="M8 5.2v13.6a1.2 1.2 0 0 0 1.8 1l11-6.8a1.2 1.2 0 0 0 0-2l-11-6.8a1.2 1.2 0 0 0-1.8 1z" fill="currentColor"/>',
  home: line('M4 11.5 12 4.5l8 7M6.5 10v9h11v-9M10.5 19v-4.5h3V19'),
  again: line('M19.5 12a7.5 7.5 0 1 1-2.4-5.5M19.5 4v4.5H15'),
  voice:
    '<path d="M4 9.5v5h3.5l5 4v-13l-5 4z" fill="currentColor" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"/>' +
    line('M16 9a4.5 4.5 0 0 1 0 6M18.8 6.2a8.5 8.5 0 0 1 0 11.6'),
  say: '<path d="M12 3.5c5.2 0 9.5 3.4 9.5 7.8s-4.3 7.7-9.5 7.7c-1 0-2-.1-2.9-.4L4 21l1.3-4.2C3.6 15.4 2.5 13.5 2.5 11.3 2.5 6.9 6.8 3.5 12 3.5z" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linejoin="round"/><path d="M8.6 14.5 12 7l3.4 7.5M9.8 12.2h4.4" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"/>',
  silent:
    '<path d="M4 9.5v5h3.5l5 4v-13l-5 4z" fill="currentColor" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round"/>' +
    line('M16.5 9.5l5 5M21.5 9.5l-5 5'),
  cup: line(
    'M8 4.5h8v6a4 4 0 0 1-8 0zM8 6H4.5c0 4 1.5 5.5 3.8 5.5M16 6h3.5c0 4-1.5 5.5-3.8 5.5M12 14.5v3.5M8.5 19.5h7',
  ),
  done: line('M5 12.5l4.8 4.8L19.5 7.5'),
  mix: line(
    'M3.5 7h3c4 0 7 10 11 10h3M3.5 17h3c1.6 0 3-1.6 4.2-3.6M13.3 10.6C14.5 8.6 15.9 7 17.5 7h3M18 4.5 20.5 7 18 9.5M18 14.5l2.5 2.5-2.5 2.5',
  ),
  star: `<path d="${STAR}" fill="currentColor" stroke="currentColor" stroke-width="1.8" stroke-linejoin="round"/>`,
  medal:
    '<path d="M8 13.5 6.5 22l5.5-2.8L17.5 22 16 13.5z" fill="currentColor" opacity=".55"/><circle cx="12" cy="9" r="7" fill="currentColor"/>' +
    '<path d="M12 5l1.3 2.6 2.9.4-2.1 2 .5 2.9-2.6-1.4-2.6 1.4.5-2.9-2.1-2 2.9-.4z" fill="#fff"/>',
  letters:
    '<path d="M3 17.5 7 6.5l4 11M4.5 14h5M14.5 6.5v11h3a3 3 0 0 0 0-6h-3M17 11.5a2.5 2.5 0 0 0 0-5h-2.5" fill="none" stroke="currentColor" stroke-width="2.2" stroke-linecap="round" stroke-linejoin="round"/>',
} as const

export type IconName = keyof typeof ICONS

export function icon(name: IconName, names = ''): SVGElement {
  return picture(ICONS[name], `icon ${names}`, 24)
}
