import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { StreamConnection, type EventSourceLike } from './connection'

/** An `EventSource` that is driven by the test. */
class FakeEventSource implements EventSourceLike {
  readyState: 0 | 1 | 2 = 1
  #listeners = new Map<string, (event: Event) => void>()

  addEventListener(name: string, listener: unknown): void {
    this.#listeners.set(name, listener as (event: Event) => void)
  }

  close(): void {
    this.readyState = 2
  }

  emit(kind: string, message: object): void {
    this.#listeners.get(kind)?.({ data: JSON.stringify(message) } as MessageEvent)
  }

  /** After a network error the browser reconnects by itself; after a rejection it does not. */
  fail(cause: 'network' | 'rejected'): void {
    this.readyState = cause === 'rejected' ? 2 : 0
    this.#listeners.get('error')?.({} as Event)
  }
}

function open({ signedIn = true } = {}) {
  const sources: FakeEventSource[] = []
  const calls: string[] = []
  const connection = new StreamConnection(
    '/v1/watch',
    {
      message: (kind, message) => calls.push(`${kind} ${message.sub}`),
      status: (status) => calls.push(status),
      rejected: () => Promise.resolve(signedIn),
    },
    () => {
      sources.push(new FakeEventSource())
      return sources.at(-1) as FakeEventSource
    },
  )
  return { connection, sources, calls, last: () => sources.at(-1) as FakeEventSource }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('the status is live after the first message', () => {
  const { calls, last } = open()
  last().emit('snapshot', { sub: 'online' })
  expect(calls).toEqual(['connecting', 'snapshot online', 'live'])
})

test('after a network error the browser reconnects', async () => {
  const { calls, last, sources } = open()
  last().fail('network')
  await vi.advanceTimersByTimeAsync(10_000)
  expect(calls).toEqual(['connecting', 'reconnecting'])
  expect(sources).toHaveLength(1)
})

test('a rejected stream is reopened with exponential backoff', async () => {
  const { last, sources } = open()
  for (const [waitMs, opened] of [[1_000, 2], [2_000, 3], [4_000, 4]] as const) {
    last().fail('rejected')
    await vi.advanceTimersByTimeAsync(waitMs - 1)
    expect(sources).toHaveLength(opened - 1)
    await vi.advanceTimersByTimeAsync(1)
    expect(sources).toHaveLength(opened)
  }
})

test('a rejected stream is not reopened when signed out', async () => {
  const { last, sources } = open({ signedIn: false })
  last().fail('rejected')
  await vi.advanceTimersByTimeAsync(120_000)
  expect(sources).toHaveLength(1)
})

test('a connection without heartbeats is replaced after 45 s', async () => {
  const { calls, last, sources } = open()
  last().emit('snapshot', { sub: 'online' })
  const dead = last()
  await vi.advanceTimersByTimeAsync(45_000)
  expect(calls.at(-1)).toBe('reconnecting')
  expect(sources).toHaveLength(2)
  dead.emit('change', { sub: 'online' })
  expect(calls.at(-1)).toBe('reconnecting')
})

test('a closed connection is not reopened', async () => {
  const { connection, last, sources } = open()
  last().fail('rejected')
  connection.close()
  await vi.advanceTimersByTimeAsync(120_000)
  expect(sources).toHaveLength(1)
})
