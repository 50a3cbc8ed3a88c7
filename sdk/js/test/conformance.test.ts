/** The shared cases of `sdk/conformance`. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { EventsLost, Playmeter } from '../src/index.js'

interface Case {
  name: string
  options: object
  calls: { call: 'track' | 'flush' | 'identify' | 'close'; event: string; player: string; error?: string; props?: any }[]
  responses?: { status: number; code?: string; body?: object; retry_after_s?: number }[]
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

async function start(planned: NonNullable<Case['responses']>) {
  const bodies: unknown[] = []
  const server = createServer(async (request, response) => {
    let text = ''
    for await (const part of request) text += part
    bodies.push(JSON.parse(text))
    const { status, code, body, retry_after_s } = planned.shift() ?? { status: 202, body: RECEIPT }
    if (retry_after_s) response.setHeader('Retry-After', retry_after_s)
    response.writeHead(status).end(JSON.stringify(body ?? { type: `/problems/${code}`, status }))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  cleanups.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies }
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
