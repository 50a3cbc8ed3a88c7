/** `localStorage`, which may be missing, full or forbidden: then nothing is remembered, and nothing breaks. */
import { parse } from './http.js'

export function recall(name: string): any {
  try {
    return parse(localStorage.getItem(name))
  } catch {
    return undefined
  }
}

export function remember(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value))
  } catch {
    // Private mode, a sandbox, or no room.
  }
}
