import { afterEach, expect, test, vi } from 'vitest'
import { Problem, type Game } from './api'
import { Client, sentence } from './client'

const GAME: Game = { id: 'demo', name: 'Demo', public_key: 'pm_pk_x', tz: 'UTC' }

/** Answers every request with this; gives what was asked. */
function server(status: number, body: unknown, headers: Record<string, string> = {}) {
  const asked: { url: string; init: RequestInit }[] = []
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    asked.push({ url, init })
    const text = body === undefined ? null : JSON.stringify(body)
    return Promise.resolve(new Response(text, { status, headers }))
  })
  return asked
}

const client = (refused = () => undefined) => new Client(GAME, 'token', refused)

afterEach(() => vi.unstubAllGlobals())

test('a write says which game it is for and carries the token of the page', async () => {
  const asked = server(200, { version: 2 })
  expect(await client().send('PUT', '/v1/vars/a%20b', { value: 1 })).toEqual({ version: 2 })
  expect(asked[0]?.url).toBe('/v1/vars/a%20b?game=demo')
  expect(asked[0]?.init.headers).toEqual({ 'X-CSRF-Token': 'token', 'Content-Type': 'application/json' })
  expect(asked[0]?.init.body).toBe('{"value":1}')
})

test('a body that is JSON already is sent as it is, and none where there is none', async () => {
  const asked = server(204, undefined)
  await client().send('PUT', '/x', '{"value": 1.0}')
  expect(await client().send('DELETE', '/x')).toBeUndefined()
  expect(asked.map(({ init }) => init.body)).toEqual(['{"value": 1.0}', undefined])
})

test('a read leaves out what is empty and says when it was answered', async () => {
  const asked = server(200, { total: 1 }, { Date: 'Fri, 20 Nov 2026 12:00:00 GMT' })
  const { body, time } = await client().get('/v1/levels', { mode: 'popular', player: '', page: undefined })
  expect([body, time]).toEqual([{ total: 1 }, '2026-11-20T12:00:00.000Z'])
  expect(asked[0]?.url).toBe('/v1/levels?game=demo&mode=popular')
})

test('a refusal names its field, and a lost sign-in is told', async () => {
  server(400, { title: 'A field is invalid', detail: 'it is too long', field: 'name' })
  const problem = await client().send('PUT', '/x', {}).catch((error: unknown) => error)
  expect(problem).toMatchObject({ status: 400, field: 'name', message: 'it is too long' })
  expect(sentence(problem)).toBe('It is too long.')
  server(401, {})
  const refused = vi.fn()
  await expect(client(refused).get('/x')).rejects.toBeInstanceOf(Problem)
  expect(refused).toHaveBeenCalledOnce()
})

test('no answer at all has words as well', () => {
  expect(sentence(new TypeError('fetch failed'))).toMatch(/^The server does not answer\./)
})
