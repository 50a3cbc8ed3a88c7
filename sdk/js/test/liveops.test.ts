import { expect, test, vi } from 'vitest'
import { Refused } from '../src/index.js'
import { sha256 } from '../src/sha256.js'
import { client, server } from './game.js'

test('a score is signed by a session, which is created once', async () => {
  const mock = await server()
  const game = client(mock.url, { player: 'ann', name: 'Ann' })
  const saved = await game.board('stars').submit(7, { fields: { car: 'red' } })
  expect(saved).toMatchObject({ saved: true, best: 7, rank: 1 })
  await game.board('stars').submit(9)
  expect(mock.requests.map(({ path }) => path)).toEqual([
    '/v1/session',
    '/v1/boards/stars/scores',
    '/v1/boards/stars/scores',
  ])
  expect((await game.board('stars').list()).rows).toMatchObject([
    { rank: 1, player: 'ann', name: 'Ann', score: 9 },
  ])
})

test('without WebCrypto a score is signed by the sha256 option, or fails with the code insecure', async () => {
  const mock = await server()
  const { getRandomValues } = crypto
  vi.stubGlobal('crypto', { getRandomValues: getRandomValues.bind(crypto) })
  await client(mock.url, { name: 'Ann', sha256 }).board('stars').submit(7)
  await expect(client(mock.url).board('stars').submit(8)).rejects.toMatchObject({ code: 'insecure' })
  vi.unstubAllGlobals()
  expect((await client(mock.url).board('stars').list()).rows).toHaveLength(1)
})

test('a client whose clock is off by a day signs with the time of the server', async () => {
  const mock = await server()
  const game = client(mock.url, { name: 'Ann' })
  const now = Date.now
  const day = 86_400_000
  const here = vi
    .spyOn(Date, 'now')
    .mockImplementation(() => (new Error().stack!.includes('/mock/') ? now() : now() - day))
  await game.board('stars').submit(7)
  here.mockRestore()
  const [, signed] = mock.requests
  const at = Number(String(signed!.headers['x-playmeter-signature']).split(';')[2])
  expect(Math.abs(Date.now() / 1000 - at)).toBeLessThan(5)
})

test('a session that the server no longer knows is replaced', async () => {
  const mock = await server()
  const game = client(mock.url, { name: 'Ann' })
  await game.board('stars').submit(7)
  mock.game.dropSessions()
  expect(await game.board('stars').submit(8)).toMatchObject({ best: 8 })
})

test('concurrent writes share one session, which is renewed before it expires', async () => {
  const mock = await server()
  const game = client(mock.url, { name: 'Ann' })
  await Promise.all([1, 2, 3].map((score) => game.board('stars').submit(score)))
  const sessions = () => mock.requests.filter(({ path }) => path === '/v1/session').length
  expect(sessions()).toBe(1)
  const now = Date.now
  vi.spyOn(Date, 'now').mockImplementation(() => now() + (sessions() < 2 ? 14.5 * 60_000 : 0))
  await game.board('stars').submit(4)
  vi.restoreAllMocks()
  expect(sessions()).toBe(2)
})

test('a failed write is retried with the same idempotency key', async () => {
  const mock = await server()
  const game = client(mock.url, { name: 'Ann' })
  await game.board('stars').submit(1)
  mock.fail(503)
  await game.board('stars').submit(7)
  const [, , failed, retried] = mock.requests
  expect(retried!.headers['idempotency-key']).toBe(failed!.headers['idempotency-key'])
  expect(retried!.headers['x-playmeter-signature']).not.toBe(failed!.headers['x-playmeter-signature'])
})

test('a rejected request throws an error with a code and the field', async () => {
  const mock = await server()
  const failure = await client(mock.url, { name: 'Ann' })
    .board('stars')
    .submit('7' as never)
    .catch((error) => error)
  expect(failure).toBeInstanceOf(Refused)
  expect(failure).toMatchObject({ code: 'invalid_field', field: 'score', status: 400 })
})

test('a leaderboard is listed by window, filter and friends', async () => {
  const mock = await server()
  const ann = client(mock.url, { player: 'ann', name: 'Ann' })
  const bo = client(mock.url, { player: 'bo', name: 'Bo' })
  await bo.board('stars').submit(5)
  const page = await ann.board('stars').saveAndList(3, {}, { per_page: 10 })
  expect(page.rows).toMatchObject([{ player: 'bo' }, { player: 'ann', submitted: true }])
  await ann.feed.follow('bo')
  const friends = await ann
    .board('stars')
    .list({ friends: 'follows', window: 'day', filter: { car: 'red' }, around: 'ann' })
  expect(friends.rows).toMatchObject([{ player: 'bo', rank: 1 }])
  const { query } = mock.requests.at(-1)!
  expect(Object.fromEntries(query)).toEqual({
    friends: 'follows:ann',
    window: 'day',
    'filter.car': 'red',
    around: 'ann',
    key: 'pm_pk_test',
  })
})

test('a level is saved, loaded, listed, rated and flagged', async () => {
  const mock = await server()
  const { levels } = client(mock.url, { player: 'ann', name: 'Ann' })
  const { id } = await levels.save({ name: 'Maze', data: '#..#' })
  expect(await levels.save({ name: 'Maze', data: '#..#' })).toEqual({ id, duplicate: true })
  expect(await levels.load(id)).toMatchObject({
    name: 'Maze',
    data: '#..#',
    player: 'ann',
    player_name: 'Ann',
  })
  expect(await levels.rate(id, 8)).toMatchObject({ rating: 8, votes: 1 })
  await levels.flag(id, 'too dark')
  const { levels: listed } = await levels.list({ mode: 'newest' })
  expect(listed).toMatchObject([{ id, votes: 1, flags: 1 }])
  expect(listed[0]!.data).toBeUndefined()
})

test('an achievement is granted once', async () => {
  const mock = await server()
  const { achievements } = client(mock.url, { player: 'ann' })
  expect(await achievements.grant('first')).toMatchObject({ granted: true })
  expect(await achievements.grant('first')).toMatchObject({ granted: false })
  expect(await achievements.list()).toMatchObject([{ key: 'first', granted_at: expect.any(String) }])
})

test('the feed contains the activities of followed players', async () => {
  const mock = await server()
  const ann = client(mock.url, { player: 'ann', name: 'Ann' })
  const bo = client(mock.url, { player: 'bo/2', name: 'Bo' })
  await bo.feed.post('built a tower', { floors: 9 })
  expect((await ann.feed.list()).items).toEqual([])
  await ann.feed.follow('bo/2')
  expect(await ann.feed.follows()).toEqual({ follows: ['bo/2'], count: 1 })
  expect((await ann.feed.list({ mode: 'fair', n: 5 })).items).toMatchObject([
    { kind: 'post', text: 'built a tower' },
  ])
  await ann.feed.unfollow('bo/2')
  expect((await ann.feed.follows()).count).toBe(0)
})
