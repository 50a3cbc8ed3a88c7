import { afterEach, expect, test, vi } from 'vitest'
import { ProblemError, type Game } from './api'
import { Client, errorMessage } from './client'

const GAME: Game = { id: 'demo', name: 'Demo', public_key: 'pm_pk_x', tz: 'UTC' }

/** Stubs `fetch` with one response; returns the recorded requests. */
function server(status: number, body: unknown, headers: Record<string, string> = {}) {
  const requests: { url: string; init: RequestInit }[] = []
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    requests.push({ url, init })
    const text = body === undefined ? null : JSON.stringify(body)
    return Promise.resolve(new Response(text, { status, headers }))
  })
  return requests
}

const client = (onUnauthorized = () => undefined) => new Client(GAME, 'token', onUnauthorized)

afterEach(() => vi.unstubAllGlobals())

test('a write carries the game and the CSRF token', async () => {
  const requests = server(200, { version: 2 })
  expect(await client().send('PUT', '/v1/vars/a%20b', { value: 1 })).toEqual({ version: 2 })
  expect(requests[0]?.url).toBe('/v1/vars/a%20b?game=demo')
  expect(requests[0]?.init.headers).toEqual({ 'X-CSRF-Token': 'token', 'Content-Type': 'application/json' })
  expect(requests[0]?.init.body).toBe('{"value":1}')
})

test('a string body is sent unchanged and a missing body is not sent', async () => {
  const requests = server(204, undefined)
  await client().send('PUT', '/x', '{"value": 1.0}')
  expect(await client().send('DELETE', '/x')).toBeUndefined()
  expect(requests.map(({ init }) => init.body)).toEqual(['{"value": 1.0}', undefined])
})

test('a read omits empty parameters and returns the time of the response', async () => {
  const requests = server(200, { total: 1 }, { Date: 'Fri, 20 Nov 2026 12:00:00 GMT' })
  const { body, time } = await client().get('/v1/levels', { mode: 'popular', player: '', page: undefined })
  expect([body, time]).toEqual([{ total: 1 }, '2026-11-20T12:00:00.000Z'])
  expect(requests[0]?.url).toBe('/v1/levels?game=demo&mode=popular')
})

test('a problem response names its field, and a 401 calls the handler', async () => {
  server(400, { title: 'A field is invalid', detail: 'name must be at most 100 characters', field: 'name' })
  const problem = await client().send('PUT', '/x', {}).catch((error: unknown) => error)
  expect(problem).toMatchObject({ status: 400, field: 'name', message: 'name must be at most 100 characters' })
  expect(errorMessage(problem)).toBe('Name must be at most 100 characters.')
  server(401, {})
  const onUnauthorized = vi.fn()
  await expect(client(onUnauthorized).get('/x')).rejects.toBeInstanceOf(ProblemError)
  expect(onUnauthorized).toHaveBeenCalledOnce()
})

test('a network error has a message', () => {
  expect(errorMessage(new TypeError('fetch failed'))).toMatch(/^The server cannot be reached\./)
})
