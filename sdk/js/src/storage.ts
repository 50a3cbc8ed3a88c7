/** Access to `localStorage`. If it is missing, full or denied, reads return undefined and writes are ignored. */
import { parse } from './http.js'

export function readStorage(name: string): any {
  try {
    return parse(localStorage.getItem(name))
  } catch {
    return undefined
  }
}

export function writeStorage(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value))
  } catch {
    // Private mode, a sandbox, or a full quota.
  }
}
