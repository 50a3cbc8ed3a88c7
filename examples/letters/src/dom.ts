/** Elements in a line of code. Pictures come from this program's own constants, never from outside. */

interface Properties {
  class?: string
  /** What a screen reader says. */
  label?: string
  /** Says nothing to a screen reader: something else does. */
  mute?: boolean
  press?: () => void
  [attribute: string]: unknown
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  { class: names, label, mute, press, ...attributes }: Properties = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag)
  if (names) element.className = names
  if (label) element.setAttribute('aria-label', label)
  if (mute) element.setAttribute('aria-hidden', 'true')
  if (press) element.addEventListener('click', press)
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value))
  if (tag === 'button') element.setAttribute('type', 'button')
  element.append(...children)
  return element
}

export function picture(drawing: string, names: string, size = 100): SVGElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  svg.setAttribute('viewBox', `0 0 ${size} ${size}`)
  svg.setAttribute('class', names)
  svg.setAttribute('aria-hidden', 'true')
  svg.innerHTML = drawing
  return svg
}

/** Starts an animation of this class anew. */
export function animate(element: Element, name: string): void {
  element.classList.remove(name)
  void (element as HTMLElement).offsetWidth
  element.classList.add(name)
}

export const calm = matchMedia('(prefers-reduced-motion: reduce)')
