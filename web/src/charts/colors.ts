/** The colours of the design tokens, for canvas. */

const TOKENS = [
  'text',
  'muted',
  'card',
  'line',
  'line-strong',
  'accent',
  'bar',
  'accent-soft',
  'accent-faint',
  'accent-wash',
  'duplicate',
  'invalid',
  'late',
  'series-1',
  'series-2',
  'series-3',
  'series-4',
  'series-5',
  'series-6',
  'series-7',
  'series-other',
] as const

export type Colors = Record<(typeof TOKENS)[number], string>

/** Reads the current values of the tokens within `element`. A canvas supports neither `var()` nor `light-dark()`. */
export function readColors(element: HTMLElement): Colors {
  const probe = element.appendChild(document.createElement('i'))
  const colors = TOKENS.map((token) => {
    probe.style.color = `var(--${token})`
    return [token, getComputedStyle(probe).color]
  })
  probe.remove()
  return Object.fromEntries(colors) as Colors
}
