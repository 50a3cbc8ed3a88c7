/** The colours of the tokens as a canvas takes them. */

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
] as const

export type Colors = Record<(typeof TOKENS)[number], string>

/** What the tokens are now, below `element`. A canvas knows neither `var()` nor `light-dark()`. */
export function readColors(element: HTMLElement): Colors {
  const probe = element.appendChild(document.createElement('i'))
  const colors = TOKENS.map((token) => {
    probe.style.color = `var(--${token})`
    return [token, getComputedStyle(probe).color]
  })
  probe.remove()
  return Object.fromEntries(colors) as Colors
}
