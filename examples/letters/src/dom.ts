/** Helpers to create elements. SVG drawings are constants of this program, never input. */

interface Properties {
  class?: string
  /** Accessible name. */
  label?: string
  /** Hides the element from screen readers. */
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

/** Restarts the animation of a class. */
export function restartAnimation(element: Element, name: string): void {
  element.classList.remove(name)
  void (element as HTMLElement).offsetWidth
  element.classList.add(name)
}

export const reducedMotion = matchMedia('(prefers-reduced-motion: reduce)')
