/** Says what the browser has to fetch for the first page, and fails when script is over its budget. */
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const SCRIPT_BYTES_MAX = 100_000

const dist = new URL('dist/', import.meta.url)
const files = readdirSync(dist, { recursive: true }).filter((name) => /\.(html|js|css)$/.test(name))
const sizes = files.map((name) => [name, gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length])
const script = sizes.reduce((sum, [name, bytes]) => (name.endsWith('.js') ? sum + bytes : sum), 0)

for (const [name, bytes] of sizes) console.log(`${String(bytes).padStart(7)}  ${name}`)
console.log(`${String(script).padStart(7)}  script, gzip, of ${SCRIPT_BYTES_MAX} allowed`)
process.exitCode = script > SCRIPT_BYTES_MAX ? 1 : 0
