/** Test helpers: a mock server and a client per test, and waiting. */
import { afterEach } from 'vitest'
import { startMock } from '../mock/server.mjs'
import { Playmeter, type Variables } from '../src/index.js'
import type { Options } from '../src/types.js'

const cleanups: (() => unknown)[] = []

afterEach(async () => {
  for (const cleanUp of cleanups.splice(0).reverse()) await cleanUp()
})

export async function server(options: { port?: number } = {}) {
  const mock = await startMock(options)
  cleanups.push(() => mock.close())
  return mock
}

/** A client that records reported errors in `reported`. */
export function client<V extends Variables>(url: string, options: Partial<Options<V>> = {}) {
  const reported: Error[] = []
  const onError = (error: Error) => void reported.push(error)
  const game = new Playmeter<V>({ url, key: 'pm_pk_test', flush_interval_ms: 20, onError, ...options })
  cleanups.push(() => game.close().catch(() => {}))
  return Object.assign(game, { reported })
}

export async function waitUntil(holds: () => unknown, withinMs = 4_000): Promise<void> {
  for (const end = Date.now() + withinMs; Date.now() < end; await pause(10)) if (await holds()) return
  throw new Error(`condition not met within ${withinMs} ms: ${holds}`)
}

export const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))
