// Tests that cannot run on a machine: a skip that scripts/allowed-skips.txt does not list fails when CI is "true".
import { readFileSync } from 'node:fs'

const lines = readFileSync(new URL('../scripts/allowed-skips.txt', import.meta.url), 'utf8').split('\n')
const allowed = new Set(lines.filter((line) => line && !line.startsWith('#')).map((line) => line.split(/\s+/)[0]))

/** Returns what node:test takes as `skip`: false if `isMissing` is false, else the reason. */
export function skipIf(isMissing, name, reason) {
  if (!isMissing) return false
  if (process.env.CI === 'true' && !allowed.has(name)) throw new Error(`${name} is not available in CI: ${reason}`)
  return `${name}: ${reason}`
}
