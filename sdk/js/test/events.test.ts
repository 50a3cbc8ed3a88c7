import { expect, test, vi } from 'vitest'
import { EventsLost, Refused, Unreachable } from '../src/index.js'
import { backoffMs } from '../src/errors.js'
import { client, pause, server, waitUntil } from './game.js'

const posts = (mock: Awaited<ReturnType<typeof server>>) =>
  mock.requests.filter(({ path }) => path === '/v1/events')
const names = (mock: Awaited<ReturnType<typeof server>>) =>
  mock.game.events.map(({ event }: { event: string }) => event)

test('an event is sent with its id, time, player and properties', async () => {
  const mock = await server()
  const game = client(mock.url, { player: 'ann', version: '1.2', source: 'friends' })
  game.track('jump', { value: 3, level: 'a1', props: { from: 'tree' } })
  await waitUntil(() => mock.game.events.length)
  expect(mock.game.events[0]).toEqual({
    event: 'jump',
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    ts: expect.any(Number),
    player: 'ann',
    version: '1.2',
    source: 'friends',
    value: 3,
    level: 'a1',
    props: { from: 'tree' },
  })
})

test('events are sent in one request that needs no CORS preflight', async () => {
  const mock = await server()
  const game = client(mock.url)
  for (let n = 0; n < 50; n++) game.track('jump', { value: n })
  await game.flush()
  expect(posts(mock)).toHaveLength(1)
  const { query, headers, body } = posts(mock)[0]!
  expect([query.get('key'), headers['content-type'], headers.authorization]).toEqual([
    'pm_pk_test',
    'text/plain;charset=UTF-8',
    undefined,
  ])
  expect(Date.now() - Date.parse(JSON.parse(body).sent_at)).toBeLessThan(5_000)
  expect(mock.game.events.map(({ value }: { value: number }) => value)).toEqual(
    Array.from({ length: 50 }, (_, n) => n),
  )
})

test('every request is below the size limit of beacons', async () => {
  const mock = await server()
  const game = client(mock.url)
  for (let n = 0; n < 60; n++) game.track('said', { props: { text: '語'.repeat(1_000) } })
  await game.flush()
  expect(mock.game.events).toHaveLength(60)
  expect(Math.max(...posts(mock).map(({ body }) => Buffer.byteLength(body)))).toBeLessThan(64 << 10)
})

test('a secret key is never part of a URL', async () => {
  const mock = await server()
  const game = client(mock.url, { key: 'pm_sk_test' })
  game.track('jump')
  await game.flush()
  const { query, headers } = posts(mock)[0]!
  expect([query.get('key'), headers.authorization]).toEqual([null, 'Bearer pm_sk_test'])
})

test('events are sent again with the same ids after a server error and count once', async () => {
  const mock = await server()
  const game = client(mock.url)
  mock.fail(503)
  game.track('jump')
  await expect(game.flush()).rejects.toMatchObject({ code: 'planned', status: 503 })
  game.track('fall')
  await waitUntil(() => mock.game.events.length === 2)
  const [first, second] = posts(mock).map(({ body }) => JSON.parse(body).events[0].id)
  expect(first).toBe(second)
  expect(game.reported).toEqual([])
})

test('a lost response causes a duplicate, not a lost event', async () => {
  const mock = await server()
  const real = globalThis.fetch
  let lose = true
  vi.stubGlobal('fetch', async (...args: Parameters<typeof fetch>) => {
    const response = await real(...args)
    if (lose) throw new TypeError('network')
    return response
  })
  const game = client(mock.url)
  game.track('jump')
  await expect(game.flush()).rejects.toBeInstanceOf(Unreachable)
  lose = false
  await game.flush()
  vi.unstubAllGlobals()
  expect([names(mock), mock.game.duplicates]).toEqual([['jump'], 1])
})

test('Retry-After is respected', async () => {
  const mock = await server()
  const game = client(mock.url)
  mock.fail(429, { 'Retry-After': '1' })
  game.track('jump')
  await expect(game.flush()).rejects.toBeInstanceOf(Refused)
  await expect(game.flush()).rejects.toMatchObject({ code: 'waiting' })
  await pause(500)
  expect(posts(mock)).toHaveLength(1)
  await waitUntil(() => names(mock).includes('jump'))
})

test('the backoff is exponential with jitter and starts after Retry-After', () => {
  for (let failures = 1; failures < 20; failures++) {
    const most = Math.min(300_000, 500 * 2 ** failures)
    const ms = backoffMs(failures)
    expect(ms).toBeGreaterThanOrEqual(most / 2)
    expect(ms).toBeLessThanOrEqual(most)
  }
  const at = (after: string) =>
    new Refused(new Response(null, { status: 503, headers: { 'Retry-After': after } }), {})
  expect(backoffMs(1, at('120'))).toBeGreaterThan(120_000)
  expect(at(new Date(Date.now() + 60_000).toUTCString()).retryAfterMs).toBeGreaterThan(50_000)
  expect(at('soon').retryAfterMs).toBe(0)
})

test('a rejected batch is dropped and reported, and the next one is sent', async () => {
  const mock = await server()
  const game = client(mock.url)
  mock.fail(403)
  game.track('jump')
  game.track('fall')
  await game.flush()
  expect(game.reported).toEqual([expect.any(EventsLost)])
  expect(game.reported[0]).toMatchObject({
    code: 'refused',
    count: 2,
    cause: { code: 'planned', status: 403 },
  })
  game.track('stand')
  await game.flush()
  expect(names(mock)).toEqual(['stand'])
})

test('an invalid event is reported on its own', async () => {
  const mock = await server()
  const game = client(mock.url)
  game.track('')
  game.track('jump')
  await game.flush()
  expect(game.reported[0]).toMatchObject({
    code: 'invalid',
    count: 1,
    cause: [{ reason: 'event_name_empty' }],
  })
  expect(names(mock)).toEqual(['jump'])
})

test('an offline game loses its oldest events and reports how many', async () => {
  const mock = await server()
  const { port } = new URL(mock.url)
  mock.close()
  const game = client(mock.url, { queue_events_max: 5 })
  for (let n = 0; n < 8; n++) game.track('jump', { value: n })
  await expect(game.flush()).rejects.toMatchObject({ code: 'unreachable' })
  expect(game.reported.map((error) => (error as EventsLost).code)).toEqual([
    'queue_full',
    'queue_full',
    'queue_full',
  ])
  const again = await server({ port: Number(port) })
  await game.flush()
  expect(again.game.events.map(({ value }: { value: number }) => value)).toEqual([3, 4, 5, 6, 7])
})

test('an event that is not JSON or too large is reported and the others are sent', async () => {
  const mock = await server()
  const game = client(mock.url)
  const cycle: Record<string, any> = {}
  cycle.cycle = cycle
  game.track('cycle', { props: cycle })
  game.track('large', { props: { text: 'x'.repeat(70_000) } })
  game.track('jump')
  await game.flush()
  expect(game.reported.map((error) => (error as EventsLost).code)).toEqual(['invalid', 'invalid'])
  expect(names(mock)).toEqual(['jump'])
})

test('a session starts, pings after 60 s and then every 30 s, ends, and is replaced after 30 minutes without events', async () => {
  const mock = await server()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  const game = client(mock.url, { sessions: true, flush_interval_ms: 1e9 })
  vi.advanceTimersByTime(121_000)
  vi.useRealTimers()
  vi.setSystemTime(Date.now() + 2_000_000)
  game.track('back')
  vi.useRealTimers()
  await game.close()
  expect(names(mock)).toEqual([
    '$session_start',
    '$ping',
    '$ping',
    '$ping',
    '$session_start',
    'back',
    '$session_end',
  ])
  const sessions = mock.game.events.map(({ session }: { session: string }) => session)
  expect(new Set(sessions.slice(0, 4)).size).toBe(1)
  expect(sessions[4]).not.toBe(sessions[0])
})

test('identify links earlier events to the player', async () => {
  const mock = await server()
  const game = client(mock.url)
  const before = game.player
  game.track('jump')
  game.identify('ann')
  game.track('fall')
  await game.flush()
  const events = mock.game.events.map(({ event, player, props }: any) => [event, player, props])
  expect(events).toEqual([
    ['jump', before, undefined],
    ['$identify', 'ann', { anonymous: before }],
    ['fall', 'ann', undefined],
  ])
})

test('events that a page left in localStorage are sent once by the next page', async () => {
  const mock = await server()
  const left = [
    ['id-1', '{"event":"jump","id":"id-1"}'],
    ['id-2', '{"event":"fall","id":"id-2"}'],
  ]
  const place = `playmeter:${mock.url}:pm_pk_test`
  const values = new Map([[place, JSON.stringify(left)]])
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => values.get(name) ?? null,
    setItem: (name: string, value: string) => values.set(name, value),
  })
  client(mock.url)
  await waitUntil(() => mock.game.events.length === 2)
  await client(mock.url).flush()
  vi.unstubAllGlobals()
  expect([names(mock), mock.game.duplicates]).toEqual([['jump', 'fall'], 0])
})

test('an event tracked during a slow request is sent after it', async () => {
  const mock = await server()
  const real = globalThis.fetch
  vi.stubGlobal('fetch', async (...args: Parameters<typeof fetch>) => (await pause(150), real(...args)))
  const game = client(mock.url)
  game.track('first')
  await pause(60)
  game.track('second')
  await waitUntil(() => mock.game.events.length === 2)
  game.track('third')
  await waitUntil(() => mock.game.events.length === 3)
  vi.unstubAllGlobals()
})
