/** Access to `localStorage`. If it is unavailable, nothing is stored. */

const PREFIX = 'letters:'

export function readStorage(name: string): unknown {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name) ?? 'null')
  } catch {
    return null
  }
}

export function writeStorage(name: string, value: unknown): void {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value))
  } catch {
    // Private mode, or a full quota.
  }
}
