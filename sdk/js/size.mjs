/** Prints the gzipped sizes, and fails if one exceeds the budget. */
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const BYTES_MAX = 5_000

for (const name of ['playmeter.js', 'playmeter.iife.js', 'sha256.js']) {
  const bytes = gzipSync(readFileSync(new URL(`dist/${name}`, import.meta.url)), { level: 9 }).length
  console.log(`${String(bytes).padStart(7)}  ${name}, gzip, of ${BYTES_MAX} allowed`)
  if (bytes >= BYTES_MAX) process.exitCode = 1
}
