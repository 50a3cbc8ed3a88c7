import { expect, test, vi } from 'vitest'
import { client, server } from './game.js'

const varsRequests = (mock: Awaited<ReturnType<typeof server>>) =>
  mock.requests.filter(({ path }) => path === '/v1/vars')

/** Stubs `localStorage`; without values it denies access. */
function storage(values: Map<string, string> | undefined) {
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => (values ? (values.get(name) ?? null) : deny()),
    setItem: (name: string, value: string) => (values ? values.set(name, value) : deny()),
  })
}

function deny(): never {
  throw new DOMException('access denied', 'SecurityError')
}

test('a variable has its default until it is loaded', async () => {
  const mock = await server()
  const game = client(mock.url, { defaults: { speed: 1, sky: 'blue' } })
  expect(game.vars.get('speed')).toBe(1)
  mock.setVars({ speed: 2 })
  expect(await game.vars.load()).toBe(true)
  expect(game.vars.all()).toEqual({ speed: 2, sky: 'blue' })
})

test('offline the defaults apply and load returns false', async () => {
  const game = client('http://127.0.0.1:1', { defaults: { speed: 1 } })
  expect(await game.vars.load()).toBe(false)
  expect(game.vars.get('speed')).toBe(1)
})

test('the last values are kept across pages', async () => {
  storage(new Map())
  const mock = await server()
  mock.setVars({ speed: 2 })
  await client(mock.url, { defaults: { speed: 1 } }).vars.load()
  mock.close()
  expect(client(mock.url, { defaults: { speed: 1 } }).vars.get('speed')).toBe(2)
  vi.unstubAllGlobals()
})

test('without storage variables and events still work', async () => {
  storage(undefined)
  const mock = await server()
  mock.setVars({ speed: 2 })
  const game = client(mock.url, { defaults: { speed: 1 } })
  await game.vars.load()
  game.track('jump')
  await game.flush()
  expect([game.vars.get('speed'), mock.game.events.length]).toEqual([2, 1])
  vi.unstubAllGlobals()
})

test('unchanged variables are not transferred again', async () => {
  const mock = await server()
  mock.setVars({ speed: 2 })
  const game = client(mock.url, { player: 'ann', defaults: { speed: 1 } })
  await game.vars.load()
  await game.vars.load()
  expect(varsRequests(mock).map(({ headers }) => headers['if-none-match'])).toEqual([undefined, '"2"'])
  expect(game.vars.get('speed')).toBe(2)
  game.identify('bo')
  await game.vars.load()
  expect(varsRequests(mock)[2]!.headers['if-none-match']).toBeUndefined()
})

test('the request contains the properties that conditions match', async () => {
  const mock = await server()
  const game = client(mock.url, { player: 'ann', platform: 'web', version: '1.2', segment: ['new', 'fr'] })
  await game.vars.load()
  const { query } = varsRequests(mock)[0]!
  expect(Object.fromEntries(query)).toEqual({
    player: 'ann',
    platform: 'web',
    version: '1.2',
    segment: 'new,fr',
    key: 'pm_pk_test',
  })
})

test('watch calls back at once and then only on changes', async () => {
  const mock = await server()
  const game = client(mock.url, { defaults: { speed: 1, sky: 'blue' } })
  const seen: number[] = []
  const stop = game.vars.watch('speed', (speed) => seen.push(speed))
  mock.setVars({ speed: 2, sky: 'red' })
  await game.vars.load()
  mock.setVars({ speed: 2, sky: 'green' })
  await game.vars.load()
  stop()
  mock.setVars({ speed: 3 })
  await game.vars.load()
  expect(seen).toEqual([1, 2])
})
