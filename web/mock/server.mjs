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
import { Hosts } from './hosts.mjs'
import { follow, invented, routeOf } from './liveops.mjs'
import { OPENAPI } from './openapi.mjs'
import { Refused } from './refused.mjs'

const DIST = fileURLToPath(new URL('../dist', import.meta.url))
const TOKEN = 'mock-token'
const COOKIE = 'playmeter=mock'
const CSRF = 'mock-csrf'
export const PUBLIC_KEY = 'pm_pk_mock0123456789'
export const SECRET_KEY = 'pm_sk_mock0123456789'
/** Addresses that are answered with the app, which finds its page by them. */
const PAGES = ['/', '/vars', '/boards', '/levels', '/flows', '/collectors', '/hosts', '/api']

const CHANGES_EVERY_MS = 250
const RANKINGS_EVERY = 4
const FLOWS_EVERY = 4
const HEARTBEAT_MS = 15_000
const READINGS_EVERY_MS = 10_000

const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.woff2': 'font/woff2', '.txt': 'text/plain; charset=utf-8' }
const SECURITY = {
  'Content-Security-Policy':
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'same-origin',
}

/** Starts it and gives `{url, signInUrl, close}`; port 0 takes a free one. */
export async function startMock({ port = 0, rate = 14, empty = false } = {}) {
  const game = new Game({ rate: empty ? 0 : rate, empty })
  const liveops = invented(empty)
  const hosts = new Hosts(empty)
  const watchers = new Set()
  const followers = follow(liveops)
  let epoch = 1
  let tick = 0
  const timer = setInterval(() => {
    game.play(1000 / CHANGES_EVERY_MS)
    if (tick % FLOWS_EVERY === 0) followers.flowsGoOn()
    tick += 1
    for (const message of game.changes()) tell(watchers, 'change', message, `${epoch}.${tick}`)
    if (tick % RANKINGS_EVERY) return
    for (const message of game.rankings()) tell(watchers, 'reset', message, `${epoch}.${tick}`)
  }, CHANGES_EVERY_MS)
  const heartbeat = setInterval(() => [...watchers, ...followers.map.keys()].forEach((out) => out.write(': still here\n\n')), HEARTBEAT_MS)

  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(SECURITY)) response.setHeader(name, value)
    const url = new URL(request.url, 'http://mock')
    const route = routes[`${request.method} ${url.pathname}`]
    const all = { request, response, url, game, liveops, hosts, watchers, followers, id: `${epoch}.${tick}` }
    if (route) return void route(all)
    const answer = routeOf(liveops, request.method, url)
    if (answer) void answerLiveops(all, answer)
    else file(all)
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
    json(response, 200, { signed_in: true, role: 'owner', games, csrf: CSRF })
  },

  'GET /openapi.json'({ response }) {
    json(response, 200, OPENAPI)
  },

  'GET /v1/dimensions'({ request, response, url, hosts }) {
    if (!mayAsk(request, url, false)) return problem(response, 401, 'Sign in first.')
    json(response, 200, hosts.dimensions())
  },

  'GET /v1/watch'({ request, response, url, game, hosts, watchers, followers, id }) {
    if (!mayAsk(request, url, false)) return problem(response, 401, 'Sign in first.')
    const asked = Object.fromEntries(url.searchParams)
    if (asked.vars || asked.board || asked.flows) return followers.add(response, asked)
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    if (!asked.online) return tellOfHosts(response, hosts, url.searchParams.getAll('query').map((text) => JSON.parse(text)))
    for (const message of game.snapshots()) tell([response], 'snapshot', message, id)
    watchers.add(response)
    response.on('close', () => watchers.delete(response))
  },

  async 'POST /v1/flows/packets'({ request, response, url, liveops }) {
    if (!mayAsk(request, url, true)) return problem(response, 401, 'Send a secret key.')
    json(response, 202, liveops.flows.take(await textOf(request)))
  },

  async 'POST /v1/events'({ request, response, url, game, liveops }) {
    if (!mayAsk(request, url, false)) return problem(response, 401, 'This key is not valid.')
    const body = await parsed(request)
    if (body === undefined) return problem(response, 400, 'The body is not JSON.')
    const events = Array.isArray(body) ? body : (body.events ?? [body])
    const receipt = { accepted: 0, duplicate: 0, late: 0, limited: 0, invalid: 0, results: [] }
    events.forEach((raw, i) => {
      liveops.levels.event(raw)
      const { outcome, reason } = game.take({ ...raw, platform: raw.platform ?? 'server' }, Date.now(), undefined)
      receipt[outcome] += 1
      if (outcome !== 'accepted') receipt.results.push({ i, outcome, reason })
    })
    json(response, 202, { ...receipt, position: `0/${game.position}` })
  },
}

async function answerLiveops({ request, response, url, liveops }, answer) {
  const isWrite = request.method !== 'GET'
  if (!mayAsk(request, url, isWrite)) return problem(response, signedIn(request) ? 403 : 401, 'Sign in, or send the token.')
  try {
    const body = isWrite ? await parsed(request) : undefined
    const session = request.headers['x-playmeter-signature']?.split(';')[1]
    const told = answer(session ? { ...body, session } : body)
    response.setHeader('Playmeter-Vars-Version', String(liveops.vars.version))
    if (told === undefined) response.writeHead(204).end()
    else json(response, 200, told)
  } catch (refused) {
    if (!(refused instanceof Refused)) throw refused
    problem(response, refused.status, refused.message, refused.field)
  }
}

function mayAsk(request, url, isWrite) {
  const key = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? url.searchParams.get('key')
  const isSigned = request.headers['x-playmeter-signature'] !== undefined
  if (key === SECRET_KEY || (key === PUBLIC_KEY && (isSigned || !isWrite))) return true
  return signedIn(request) && (!isWrite || request.headers['x-csrf-token'] === CSRF)
}

function file({ response, url }) {
  const path = join(DIST, normalize(PAGES.includes(url.pathname) ? '/index.html' : url.pathname))
  if (!path.startsWith(DIST) || !existsSync(path)) return problem(response, 404, 'There is nothing here.')
  response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream' })
  createReadStream(path).pipe(response)
}

/** The answers to questions about hosts, all of them again as often as agents tell. */
function tellOfHosts(response, hosts, questions) {
  let n = 0
  const say = (kind) =>
    questions.forEach((question, i) => tell([response], kind, { sub: `query${i}`, ...hosts.answer(question) }, `1.${++n}`))
  say('snapshot')
  const timer = setInterval(() => say('reset'), READINGS_EVERY_MS)
  response.on('close', () => clearInterval(timer))
}

function tell(watchers, kind, message, id) {
  const text = `event: ${kind}\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`
  for (const out of watchers) out.write(text)
}

async function textOf(request) {
  const parts = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

async function parsed(request) {
  try {
    return JSON.parse((await textOf(request)) || 'null')
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

function problem(response, status, detail, field) {
  const body = JSON.stringify({ status, title: detail, detail, field })
  response.writeHead(status, { 'Content-Type': 'application/problem+json' }).end(body)
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { PORT, RATE, EMPTY } = process.env
  const mock = await startMock({ port: Number(PORT ?? 4173), rate: Number(RATE ?? 14), empty: EMPTY === '1' })
  console.log(`Sign in at ${mock.signInUrl}`)
}
