/**
 * Prints the gzipped size of each page's script, and fails if the first page exceeds its budget. Counts the
 * scripts that a page imports statically, including transitive imports, but not those that it may load later.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const SCRIPT_BYTES_MAX = 100_000
const FIRST_PAGE = 'LivePage'

const assets = new URL('dist/assets/', import.meta.url)
const names = readdirSync(assets)
const gzipped = (name) => gzipSync(readFileSync(new URL(name, assets)), { level: 9 }).length
const index = readFileSync(new URL('dist/index.html', import.meta.url), 'utf8')
const entries = [...index.matchAll(/\/assets\/([\w.-]+\.js)/g)].map(([, name]) => name)

/** Adds a script and its static imports to a set. */
function add(name, into) {
  if (into.has(name)) return into
  into.add(name)
  const text = readFileSync(new URL(name, assets), 'utf8')
  for (const [, other] of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)) add(other, into)
  return into
}

function scriptBytes(page) {
  const scripts = entries.reduce((into, name) => add(name, into), new Set())
  return [...add(page, scripts)].reduce((sum, name) => sum + gzipped(name), 0)
}

const pages = names.filter((name) => /^\w+Page-.*\.js$/.test(name))
const sizes = pages.map((name) => [name.split('-')[0], scriptBytes(name)])
for (const [page, bytes] of sizes) console.log(`${String(bytes).padStart(7)}  scripts of ${page}, gzip`)
for (const name of names.filter((name) => name.endsWith('.css'))) console.log(`${String(gzipped(name)).padStart(7)}  ${name}`)

const first = sizes.find(([page]) => page === FIRST_PAGE)?.[1] ?? Infinity
console.log(`${String(first).padStart(7)}  first page, of ${SCRIPT_BYTES_MAX} allowed`)
process.exitCode = first > SCRIPT_BYTES_MAX ? 1 : 0
