/** A server and a client for one test, and a word for waiting. */
import { afterEach } from 'vitest'
import { startMock } from '../mock/server.mjs'
import { Playmeter, type Variables } from '../src/index.js'
import type { Options } from '../src/types.js'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

export async function server(options: { port?: number } = {}) {
  const mock = await startMock(options)
  ends.push(() => mock.close())
  return mock
}

/** A client whose reports are kept in `reported`. */
export function client<V extends Variables>(url: string, options: Partial<Options<V>> = {}) {
  const reported: Error[] = []
  const onError = (error: Error) => void reported.push(error)
  const game = new Playmeter<V>({ url, key: 'pm_pk_test', flush_interval_ms: 20, onError, ...options })
  ends.push(() => game.close().catch(() => {}))
  return Object.assign(game, { reported })
}

export async function until(holds: () => unknown, withinMs = 4_000): Promise<void> {
  for (const end = Date.now() + withinMs; Date.now() < end; await pause(10)) if (await holds()) return
  throw new Error(`not within ${withinMs} ms: ${holds}`)
}

export const pause = (ms: number) => new Promise((done) => setTimeout(done, ms))
