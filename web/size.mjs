/**
 * Says what the browser has to fetch for each page, and fails when the script of the first one is over its budget.
 * Counted is what a page's script imports, and what those import; what it may fetch later is not.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const SCRIPT_BYTES_MAX = 100_000
const FIRST = 'LivePage'

const assets = new URL('dist/assets/', import.meta.url)
const names = readdirSync(assets)
const gzipped = (name) => gzipSync(readFileSync(new URL(name, assets)), { level: 9 }).length
const index = readFileSync(new URL('dist/index.html', import.meta.url), 'utf8')
const entries = [...index.matchAll(/\/assets\/([\w.-]+\.js)/g)].map(([, name]) => name)

/** Adds a script and all that it cannot start without. */
function add(name, into) {
  if (into.has(name)) return into
  into.add(name)
  const text = readFileSync(new URL(name, assets), 'utf8')
  for (const [, other] of text.matchAll(/(?:from|import)\s*["']\.\/([\w.-]+\.js)["']/g)) add(other, into)
  return into
}

function scriptOf(page) {
  const scripts = entries.reduce((into, name) => add(name, into), new Set())
  return [...add(page, scripts)].reduce((sum, name) => sum + gzipped(name), 0)
}

const pages = names.filter((name) => /^\w+Page-.*\.js$/.test(name))
const sizes = pages.map((name) => [name.split('-')[0], scriptOf(name)])
for (const [page, bytes] of sizes) console.log(`${String(bytes).padStart(7)}  script of ${page}, gzip`)
for (const name of names.filter((name) => name.endsWith('.css'))) console.log(`${String(gzipped(name)).padStart(7)}  ${name}`)

const first = sizes.find(([page]) => page === FIRST)?.[1] ?? Infinity
console.log(`${String(first).padStart(7)}  the first page, of ${SCRIPT_BYTES_MAX} allowed`)
process.exitCode = first > SCRIPT_BYTES_MAX ? 1 : 0
