/** What this browser remembers of the game. Where it may not, nothing is remembered. */

const PLACE = 'letters:'

export function recall(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PLACE + name) ?? 'null')
  } catch {
    return null
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(PLACE + name, JSON.stringify(value))
  } catch {
    // Private mode, or no room.
  }
}
