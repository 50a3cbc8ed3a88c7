/**
 * A mock server with the built dashboard and a generated game, for development and tests without the
 * real server: run `npm run mock` and open the printed link.
 *
 * Variables: PORT (4173), RATE (events per second, 14), EMPTY=1 (a game without data).
 */
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Game } from './game.mjs'
import { Hosts } from './hosts.mjs'
import { createLiveops, createStreams, routeOf } from './liveops.mjs'
import { OPENAPI } from './openapi.mjs'
import { ProblemError } from './problem.mjs'
import { answerSql } from './sql.mjs'

const DIST = fileURLToPath(new URL('../dist', import.meta.url))
const TOKEN = 'mock-token'
const COOKIE = 'playmeter=mock'
const CSRF = 'mock-csrf'
export const PUBLIC_KEY = 'pm_pk_mock0123456789'
export const SECRET_KEY = 'pm_sk_mock0123456789'
/** Paths that serve the app. */
const pagePaths = () => ['/', ...JSON.parse(readFileSync(join(DIST, 'pages.json'), 'utf8')).map((page) => `/${page}`)]

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

/** Starts the mock and returns `{url, signInUrl, close}`; port 0 selects a free port. */
export async function startMock({ port = 0, rate = 14, empty = false } = {}) {
  const game = new Game({ rate: empty ? 0 : rate, empty })
  const liveops = createLiveops(empty)
  const hosts = new Hosts(empty)
  const watchers = new Set()
  const streams = createStreams(liveops)
  let epoch = 1
  let tick = 0
  const timer = setInterval(() => {
    game.advance(1000 / CHANGES_EVERY_MS)
    if (tick % FLOWS_EVERY === 0) streams.advanceFlows()
    tick += 1
    for (const message of game.changes()) send(watchers, 'change', message, `${epoch}.${tick}`)
    if (tick % RANKINGS_EVERY) return
    for (const message of game.rankings()) send(watchers, 'reset', message, `${epoch}.${tick}`)
  }, CHANGES_EVERY_MS)
  const heartbeat = setInterval(() => [...watchers, ...streams.map.keys()].forEach((out) => out.write(': heartbeat\n\n')), HEARTBEAT_MS)

  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(SECURITY)) response.setHeader(name, value)
    const url = new URL(request.url, 'http://mock')
    const route = routes[`${request.method} ${url.pathname}`]
    const context = { request, response, url, game, liveops, hosts, watchers, streams, id: `${epoch}.${tick}` }
    if (route) return void route(context)
    const handler = routeOf(liveops, request.method, url)
    if (handler) void answerLiveops(context, handler)
    else serveFile(context)
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
    if (!isAuthorized(request, url, false)) return problem(response, 401, 'Sign in first.')
    json(response, 200, hosts.dimensions())
  },

  'GET /v1/watch'({ request, response, url, game, hosts, watchers, streams, id }) {
    if (!isAuthorized(request, url, false)) return problem(response, 401, 'Sign in first.')
    const params = Object.fromEntries(url.searchParams)
    if (params.vars || params.board || params.flows) return streams.add(response, params)
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    if (!params.online) return streamHosts(response, hosts, url.searchParams.getAll('query').map((text) => JSON.parse(text)))
    for (const message of game.snapshots()) send([response], 'snapshot', message, id)
    watchers.add(response)
    response.on('close', () => watchers.delete(response))
  },

  async 'POST /v1/sql'({ request, response, url }) {
    if (!isAuthorized(request, url, true)) return problem(response, 401, 'Sign in first.')
    const body = await jsonOf(request)
    if (body === undefined) return problem(response, 400, 'The body is not JSON.')
    try {
      json(response, 200, answerSql(body))
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error
      problem(response, error.status, error.message, error.field)
    }
  },

  async 'POST /v1/flows/packets'({ request, response, url, liveops }) {
    if (!isAuthorized(request, url, true)) return problem(response, 401, 'Send a secret key.')
    json(response, 202, liveops.flows.apply(await textOf(request)))
  },

  async 'POST /v1/events'({ request, response, url, game, liveops }) {
    if (!isAuthorized(request, url, false)) return problem(response, 401, 'This key is not valid.')
    const body = await jsonOf(request)
    if (body === undefined) return problem(response, 400, 'The body is not JSON.')
    const events = Array.isArray(body) ? body : (body.events ?? [body])
    const receipt = { accepted: 0, duplicate: 0, late: 0, limited: 0, invalid: 0, results: [] }
    events.forEach((raw, i) => {
      liveops.levels.event(raw)
      const { outcome, reason } = game.submit({ ...raw, platform: raw.platform ?? 'server' }, Date.now(), undefined)
      receipt[outcome] += 1
      if (outcome !== 'accepted') receipt.results.push({ i, outcome, reason })
    })
    json(response, 202, { ...receipt, position: `0/${game.position}` })
  },
}

async function answerLiveops({ request, response, url, liveops }, handler) {
  const isWrite = request.method !== 'GET'
  if (!isAuthorized(request, url, isWrite)) return problem(response, signedIn(request) ? 403 : 401, 'Sign in, or send the CSRF token.')
  try {
    const body = isWrite ? await jsonOf(request) : undefined
    const session = request.headers['x-playmeter-signature']?.split(';')[1]
    const result = handler(session ? { ...body, session } : body)
    response.setHeader('Playmeter-Vars-Version', String(liveops.vars.version))
    if (result === undefined) response.writeHead(204).end()
    else json(response, 200, result)
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error
    problem(response, error.status, error.message, error.field)
  }
}

function isAuthorized(request, url, isWrite) {
  const key = /^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? url.searchParams.get('key')
  const isSigned = request.headers['x-playmeter-signature'] !== undefined
  if (key === SECRET_KEY || (key === PUBLIC_KEY && (isSigned || !isWrite))) return true
  return signedIn(request) && (!isWrite || request.headers['x-csrf-token'] === CSRF)
}

function serveFile({ response, url }) {
  const path = join(DIST, normalize(pagePaths().includes(url.pathname) ? '/index.html' : url.pathname))
  if (!path.startsWith(DIST) || !existsSync(path)) return problem(response, 404, 'There is no such route.')
  response.writeHead(200, { 'Content-Type': TYPES[extname(path)] ?? 'application/octet-stream' })
  createReadStream(path).pipe(response)
}

/** Streams the results of host queries, all of them again at every reading. */
function streamHosts(response, hosts, queries) {
  let n = 0
  const sendAll = (kind) =>
    queries.forEach((query, i) => send([response], kind, { sub: `query${i}`, ...hosts.result(query) }, `1.${++n}`))
  sendAll('snapshot')
  const timer = setInterval(() => sendAll('reset'), READINGS_EVERY_MS)
  response.on('close', () => clearInterval(timer))
}

function send(watchers, kind, message, id) {
  const text = `event: ${kind}\nid: ${id}\ndata: ${JSON.stringify(message)}\n\n`
  for (const out of watchers) out.write(text)
}

async function textOf(request) {
  const parts = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

async function jsonOf(request) {
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
