/**
 * Serves the built dashboard and plays the server behind it, so that the page can be worked on and
 * tested alone: `npm run mock`, then open the printed link.
 *
 * PORT (4173), RATE (events a second, 14), EMPTY=1 (nothing was ever sent).
 */
import { createReadStream, existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Game } from './game.mjs'

const DIST = fileURLToPath(new URL('../dist', import.meta.url))
const TOKEN = 'mock-token'
const COOKIE = 'playmeter=mock'
export const PUBLIC_KEY = 'pm_pk_mock0123456789'

const CHANGES_EVERY_MS = 250
const RANKINGS_EVERY = 4
const HEARTBEAT_MS = 15_000

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2' }
const SECURITY = {
  'Content-Security-Policy': "default-src 'self'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'same-origin',
}

/** Starts it and gives `{url, signInUrl, close}`; port 0 takes a free one. */
export async function startMock({ port = 0, rate = 14, empty = false } = {}) {
  const game = new Game({ rate: empty ? 0 : rate, empty })
  const watchers = new Set()
  let epoch = 1
  let tick = 0
  const timer = setInterval(() => {
    game.play(1000 / CHANGES_EVERY_MS)
    tick += 1
    for (const message of game.changes()) tell(watchers, 'change', message, `${epoch}.${tick}`)
    if (tick % RANKINGS_EVERY) return
    for (const message of game.rankings()) tell(watchers, 'reset', message, `${epoch}.${tick}`)
  }, CHANGES_EVERY_MS)
  const heartbeat = setInterval(() => watchers.forEach((out) => out.write(': still here\n\n')), HEARTBEAT_MS)

  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(SECURITY)) response.setHeader(name, value)
    const url = new URL(request.url, 'http://mock')
    const route = routes[`${request.method} ${url.pathname}`] ?? file
    route({ request, response, url, game, watchers, id: `${epoch}.${tick}` })
  })
  await new Promise((done) => server.listen(port, '127.0.0.1', done))
  const url = `http://127.0.0.1:${server.address().port}`
  return {
    url,
    signInUrl: `${url}/sign-in?token=${TOKEN}`,
    close() {
      clearInterval(timer)
      clearInterval(heartbeat)
      server.closeAllConnections()
      server.close()
    },
  }
}

const routes = {
  'GET /sign-in'({ response, url }) {
    if (url.searchParams.get('token') !== TOKEN) return problem(response, 401, 'This link is not valid.')
    response.writeHead(303, { Location: '/', 'Set-Cookie': `${COOKIE}; HttpOnly; SameSite=Lax; Path=/` }).end()
  },

  'POST /v1/sign-out'({ response }) {
    response.writeHead(204, { 'Set-Cookie': `${COOKIE}; Max-Age=0; Path=/` }).end()
  },

  'GET /v1/me'({ request, response }) {
    if (!signedIn(request)) return problem(response, 401, 'Sign in first.')
    const games = [{ id: 'demo', name: 'Demo game', public_key: PUBLIC_KEY, tz: 'UTC' }]
    json(response, 200, { signed_in: true, role: 'owner', games })
  },

  'GET /v1/watch'({ request, response, game, watchers, id }) {
    if (!signedIn(request)) return problem(response, 401, 'Sign in first.')
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    for (const message of game.snapshots()) tell([response], 'snapshot', message, id)
    watchers.add(response)
    response.on('close', () => watchers.delete(response))
  },

  async 'POST /v1/events'({ request, response, game }) {
    if (request.headers.authorization !== `Bearer ${PUBLIC_KEY}`) return problem(response, 401, 'This key is not valid.')
    const body = await parsed(request)
    if (body === undefined) return problem(response, 400, 'The body is not JSON.')
    const events = Array.isArray(body) ? body : (body.events ?? [body])
    const receipt = { accepted: 0, duplicate: 0, late: 0, limited: 0, invalid: 0, results: [] }
    events.forEach((raw, i) => {
      const { outcome, reason } = game.take({ ...raw, platform: raw.platform ?? 'server' }, Date.now(), undefined)
      receipt[outcome] += 1
      if (outcome !== 'accepted') receipt.results.push({ i, outcome, reason })
    })
    json(response, 202, { ...receipt, position: `0/${game.position}` })
  },
}

function file({ response, url }) {
  const path = join(DIST, normalize(url.pathname === '/' ? '/index.html' : url.pathname))
  if (!path.startsWith(DIST) || !existsSync(path)) return problem(response, 404, 'There is nothing here.')
  response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream' })
  createReadStream(path).pipe(response)
}

function tell(watchers, kind, message, id) {
  const text = `event: ${kind}\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`
  for (const out of watchers) out.write(text)
}

async function parsed(request) {
  const parts = []
  for await (const part of request) parts.push(part)
  try {
    return JSON.parse(Buffer.concat(parts).toString())
  } catch {
    return undefined
  }
}

function signedIn(request) {
  return (request.headers.cookie ?? '').split('; ').includes(COOKIE)
}

function json(response, status, body) {
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

function problem(response, status, detail) {
  response.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(JSON.stringify({ status, title: detail }))
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { PORT, RATE, EMPTY } = process.env
  const mock = await startMock({ port: Number(PORT ?? 4173), rate: Number(RATE ?? 14), empty: EMPTY === '1' })
  console.log(`Sign in at ${mock.signInUrl}`)
}
