/** Small settings of this browser. Storage may be unavailable in private windows: they then last until the page is closed. */

const PREFIX = 'playmeter.'

/** Returns a stored JSON value; `undefined` if there is none or it cannot be read. */
export function load(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

/** Stores a JSON value; `undefined` removes it. */
export function store(name: string, value: unknown): void {
  try {
    if (value === undefined) localStorage.removeItem(PREFIX + name)
    else localStorage.setItem(PREFIX + name, JSON.stringify(value))
  } catch {
    // Nothing else depends on it.
  }
}
