/**
 * A mock server with one game, for development and tests of the client without the real server:
 * `npm run mock` (PORT, 4174). It can also serve folders of files.
 */
import { createReadStream, existsSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Game, ProblemError } from './game.mjs'

export const PUBLIC_KEY = 'pm_pk_mock0123456789'

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.woff2': 'font/woff2',
  '.json': 'application/json',
}
const HEADERS = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
  'Access-Control-Allow-Headers':
    'Authorization, Content-Type, Idempotency-Key, If-None-Match, X-Playmeter-Signature',
  'Access-Control-Expose-Headers': 'ETag, Retry-After',
  'Content-Security-Policy':
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
}

/**
 * Starts the mock. `folders` maps path prefixes to folders. The result has the state (`game`), the received
 * `requests`, and `fail(status, headers)`, which fails the next write.
 */
export async function startMock({ port = 0, folders = {} } = {}) {
  const game = new Game()
  const watchers = new Set()
  const requests = []
  const failures = []
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://mock')
    for (const [name, value] of Object.entries(HEADERS)) response.setHeader(name, value)
    if (request.method === 'OPTIONS') return response.writeHead(204).end()
    const body = await read(request)
    requests.push({
      method: request.method,
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body,
    })
    try {
      if (request.method !== 'GET' && failures.length) return failures.shift()(response)
      handle({ game, watchers, folders, request, response, url, body })
    } catch (error) {
      const { status, problem } =
        error instanceof ProblemError ? error : { status: 500, problem: { title: String(error) } }
      json(response, problem, status)
    }
  })
  await new Promise((done) => server.listen(port, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    publicKey: PUBLIC_KEY,
    game,
    requests,
    watchers,
    fail(status, headers = {}) {
      failures.push((response) => json(response, { type: '/problems/planned', status }, status, headers))
    },
    setVars(vars) {
      game.setVars(vars)
      watchers.forEach((out) => send(out, 'change', game))
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

const ROUTES = [
  [
    'POST',
    /^\/v1\/events$/,
    ({ game, body, url }) => [202, game.submitEvents(JSON.parse(body), url.searchParams.get('batch'))],
  ],
  ['GET', /^\/v1\/events\/receipts\/([^/]+)$/, ({ game }, batch) => [200, game.receipt(batch)]],
  ['POST', /^\/v1\/session$/, ({ game, body }) => [201, game.session(JSON.parse(body))]],
  [
    'POST',
    /^\/v1\/boards\/([^/]+)\/scores$/,
    signed((game, value, table) => [200, game.submit(table, value)]),
  ],
  [
    'POST',
    /^\/v1\/boards\/([^/]+)\/scores:saveAndList$/,
    signed((game, value, table, query) => [
      200,
      { ...game.submit(table, value), ...game.page(table, query, value.player) },
    ]),
  ],
  [
    'GET',
    /^\/v1\/boards\/([^/]+)\/scores$/,
    ({ game, url }, table) => [200, game.page(table, url.searchParams)],
  ],
  ['POST', /^\/v1\/levels$/, signed((game, value) => [201, game.saveLevel(value)])],
  ['GET', /^\/v1\/levels$/, ({ game, url }) => [200, game.levels(url.searchParams)]],
  ['GET', /^\/v1\/levels\/([^/]+)$/, ({ game }, id) => [200, game.level(id)]],
  ['POST', /^\/v1\/levels\/([^/]+)\/rating$/, signed((game, value, id) => [200, game.rate(id, value)])],
  ['POST', /^\/v1\/levels\/([^/]+)\/flags$/, signed((game, _, id) => [200, game.flag(id)])],
  [
    'POST',
    /^\/v1\/achievements\/([^/]+)\/grants$/,
    signed((game, value, key) => [201, game.grant(key, value)]),
  ],
  [
    'GET',
    /^\/v1\/achievements$/,
    ({ game, url }) => [200, game.achievements(url.searchParams.get('player'))],
  ],
  ['POST', /^\/v1\/feed$/, signed((game, value) => [201, game.post(value)])],
  ['GET', /^\/v1\/feed\/([^/]+)$/, ({ game }, player) => [200, game.feed(player)]],
  [
    'GET',
    /^\/v1\/players\/([^/]+)\/follows$/,
    ({ game }, player) => [200, { follows: [...game.follows(player)], count: game.follows(player).size }],
  ],
  ['PUT', /^\/v1\/players\/([^/]+)\/follows\/([^/]+)$/, follow('add')],
  ['DELETE', /^\/v1\/players\/([^/]+)\/follows\/([^/]+)$/, follow('delete')],
]

function handle(context) {
  const { game, watchers, request, response, url } = context
  if (url.pathname === '/v1/vars') return vars(game, request, response)
  if (url.pathname === '/v1/watch') return watch(game, watchers, request, response)
  for (const [method, path, decide] of ROUTES) {
    const found = method === request.method && path.exec(url.pathname)
    if (!found) continue
    const [status, value] = decide(context, ...found.slice(1).map(decodeURIComponent))
    return status === 204 ? response.writeHead(204).end() : json(response, value, status)
  }
  serveFile(context)
}

/** Handles a write in a player's name: signed by the session of that player, applied once. */
function signed(decide) {
  return ({ game, request, url, body }, ...found) => {
    const value = JSON.parse(body)
    const player = game.signedBy(request, body)
    if (value.player !== player) throw new ProblemError(403, 'not_yours', 'player')
    return game.once(request.headers['idempotency-key'], body, () =>
      decide(game, value, found[0], url.searchParams),
    )
  }
}

function follow(change) {
  return ({ game, request, body }, player, other) => {
    if (game.signedBy(request, body) !== player) throw new ProblemError(403, 'not_yours', 'player')
    game.follows(player)[change](other)
    return [204]
  }
}

function vars(game, request, response) {
  const etag = `"${game.version}"`
  response.setHeader('ETag', etag)
  if (request.headers['if-none-match'] === etag) return response.writeHead(304).end()
  json(response, game.vars)
}

function watch(game, watchers, request, response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream' })
  send(response, 'snapshot', game)
  watchers.add(response)
  request.on('close', () => watchers.delete(response))
}

function send(out, kind, { version, vars }) {
  out.write(`event: ${kind}\ndata: ${JSON.stringify({ topic: 'vars', version, vars })}\n\n`)
}

function serveFile({ folders, response, url }) {
  for (const [start, folder] of Object.entries(folders)) {
    if (!url.pathname.startsWith(start)) continue
    if (typeof folder === 'object') return json(response, folder)
    const root = resolve(folder)
    const path = join(root, normalize('/' + url.pathname.slice(start.length)))
    const found = [path, join(path, 'index.html')].find((one) => existsSync(one) && statSync(one).isFile())
    if (found)
      return createReadStream(found).pipe(
        response.setHeader('Content-Type', TYPES[extname(found)] ?? 'text/plain'),
      )
  }
  throw new ProblemError(404, 'not_found')
}

function json(response, value, status = 200, headers = {}) {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value))
}

async function read(request) {
  const parts = []
  for await (const part of request) parts.push(part)
  return Buffer.concat(parts).toString()
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { url } = await startMock({ port: Number(process.env.PORT ?? 4174) })
  console.log(`${url} ${PUBLIC_KEY}`)
}
