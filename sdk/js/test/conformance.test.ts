/** The shared cases of `sdk/conformance`. */
import { readFileSync } from 'node:fs'
import { createHash, createHmac } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { EventsLost, Playmeter } from '../src/index.js'

/** A response of the server. */
interface Planned {
  status: number
  code?: string
  body?: object
  retry_after_s?: number
  etag?: string
}

interface Case {
  name: string
  options: object
  calls: { call: 'track' | 'flush' | 'identify' | 'close'; event: string; player: string; error?: string; props?: any }[]
  responses?: (Planned | null)[]
  requests: object[]
  reported: object[]
}

const FILE = new URL('../../conformance/events.json', import.meta.url)
const { cases }: { cases: Case[] } = JSON.parse(readFileSync(FILE, 'utf8'))
const RECEIPT = { accepted: 1, duplicate: 0, late: 0, limited: 0, invalid: 0, results: [] }
const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const cleanups: (() => void)[] = []

afterEach(() => cleanups.splice(0).forEach((cleanUp) => cleanUp()))

test.each(cases)('$name', async ({ options, calls, responses = [], requests, reported }) => {
  const server = await start([...responses])
  const errors: Error[] = []
  const onError = (error: Error) => void errors.push(error)
  const game = new Playmeter({ url: server.url, key: 'pm_pk_test', flush_interval_ms: 1e9, onError, ...options })
  for (const call of calls) {
    const made = make(game, call)
    if (call.error) await expect(made).rejects.toMatchObject({ code: call.error })
    else await made
  }
  expect(server.bodies).toHaveLength(requests.length)
  const ids = new Map<string, unknown>()
  requests.forEach((expected, i) => match(server.bodies[i], expected, ids))
  const lost = errors.filter((error) => error instanceof EventsLost)
  expect(lost.map(({ code, count }) => ({ code, count }))).toEqual(reported)
})

async function make(game: Playmeter, { call, event, player, error: _, ...details }: Case['calls'][number]) {
  if (call === 'flush' || call === 'close') return game[call]()
  if (call === 'identify') return game.identify(player)
  for (const [name, value] of Object.entries(details.props ?? {})) {
    const [, times] = /^\$repeat:(\d+)$/.exec(String(value)) ?? []
    if (times) details.props[name] = 'x'.repeat(Number(times))
  }
  game.track(event, details)
}

async function start(planned: (Planned | null)[]) {
  const bodies: unknown[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    bodies.push(JSON.parse(text))
    respond(response, planned.length ? planned.shift()! : { status: 202, body: RECEIPT })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies }
}

function respond(response: ServerResponse, planned: Planned | null) {
  if (!planned) return response.destroy()
  const { status, code, body, retry_after_s, etag } = planned
  if (retry_after_s) response.setHeader('Retry-After', retry_after_s)
  if (etag) response.setHeader('ETag', etag)
  return response.writeHead(status).end(status === 304 ? undefined : JSON.stringify(body ?? { type: `/problems/${code}`, status }))
}

function match(value: any, expected: any, ids: Map<string, unknown>): void {
  if (Array.isArray(expected)) {
    expect(value).toHaveLength(expected.length)
    expected.forEach((inner, i) => match(value[i], inner, ids))
  } else if (typeof expected === 'object') {
    const { absent = [], ...fields } = expected
    for (const name of absent) expect(value).not.toHaveProperty(name)
    for (const [name, inner] of Object.entries(fields)) match(value[name], inner, ids)
  } else if (expected === '$uuid7') {
    expect(value).toMatch(UUID7)
  } else if (expected === '$ms') {
    expect(value).toBeGreaterThan(1_600_000_000_000)
  } else if (expected === '$text') {
    expect(value).toBeTypeOf('string')
  } else if (typeof expected === 'string' && expected.startsWith('$id:')) {
    if (!ids.has(expected)) ids.set(expected, value)
    expect(value).toBe(ids.get(expected))
  } else {
    expect(value).toEqual(expected)
  }
}

interface LiveopsCase {
  name: string
  options: object
  calls: ({ call: 'load_vars' | 'submit' | 'list' | 'identify'; table: string; score: number; player: string } & Expected)[]
  responses?: Record<string, (Planned | null)[]>
  requests: { route: string; query?: object; headers?: Record<string, string>; body?: object; absent?: string[] }[]
}

/** What a call is expected to give. */
interface Expected {
  query?: object
  loaded?: boolean
  vars?: object
  result?: object
  error?: string
}

const LIVEOPS_FILE = new URL('../../conformance/liveops.json', import.meta.url)
const liveops: { defaults: Record<string, Planned>; cases: LiveopsCase[] } = JSON.parse(readFileSync(LIVEOPS_FILE, 'utf8'))
const SESSION_KEY = Buffer.from((liveops.defaults['POST /v1/session']!.body as any).key, 'base64url')

test.each(liveops.cases)('$name', async ({ options, calls, responses = {}, requests }) => {
  const seen: { request: IncomingMessage; route: string; query: URLSearchParams; body: string }[] = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const part of request) body += part
    const { pathname, searchParams } = new URL(request.url!, 'http://server')
    const route = `${request.method} ${pathname}`
    seen.push({ request, route, query: searchParams, body })
    respond(response, responses[route]?.length ? responses[route].shift()! : liveops.defaults[route]!)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const game = new Playmeter({ url, key: 'pm_pk_test', flush_interval_ms: 1e9, ...options })
  for (const call of calls) await makeLiveops(game, call)
  expect(seen.map(({ route }) => route)).toEqual(requests.map(({ route }) => route))
  const ids = new Map<string, unknown>()
  requests.forEach((expected, i) => {
    const { request, route, query, body } = seen[i]!
    for (const name of expected.absent ?? []) expect(request.headers).not.toHaveProperty(name.toLowerCase())
    match(Object.fromEntries(query), expected.query ?? {}, ids)
    if (expected.body) match(JSON.parse(body), expected.body, ids)
    for (const [name, header] of Object.entries(expected.headers ?? {})) {
      const value = request.headers[name.toLowerCase()] as string
      if (header === '$signature') checkSignature(value, route.replace(' ', '\n'), body)
      else if (header.startsWith('$other:')) expect(value).not.toBe(ids.get('$id:' + header.slice(7)))
      else match(value, header, ids)
    }
  })
})

async function makeLiveops(game: Playmeter, { call, table, score, player, ...expected }: LiveopsCase['calls'][number]) {
  if (call === 'identify') return game.identify(player)
  if (call === 'load_vars') {
    expect(await game.vars.load()).toBe(expected.loaded)
    return expect(game.vars.all()).toEqual(expected.vars)
  }
  const board = game.board(table)
  const made: Promise<object> = call === 'submit' ? board.submit(score) : board.list(expected.query)
  if (expected.error) return expect(made).rejects.toMatchObject({ code: expected.error })
  return expect(await made).toMatchObject(expected.result ?? {})
}

function checkSignature(header: string, methodAndPath: string, body: string) {
  const [version, session, at, nonce, mac] = header.split(';')
  expect([version, session]).toEqual(['v1', 'session-1'])
  const digest = createHash('sha256').update(body).digest('hex')
  const message = [at, nonce, methodAndPath, digest].join('\n')
  expect(mac).toBe(createHmac('sha256', SESSION_KEY).update(message).digest('hex'))
}
