import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Watch, type Source } from './watch'

/** What the browser's `EventSource` does, done by hand. */
class Connection implements Source {
  readyState: 0 | 1 | 2 = 1
  #listeners = new Map<string, (event: Event) => void>()

  addEventListener(name: string, listener: unknown): void {
    this.#listeners.set(name, listener as (event: Event) => void)
  }

  close(): void {
    this.readyState = 2
  }

  says(kind: string, message: object): void {
    this.#listeners.get(kind)?.({ data: JSON.stringify(message) } as MessageEvent)
  }

  /** The network broke: the browser tries again by itself. Refused: it does not. */
  fails(how: 'broken' | 'refused'): void {
    this.readyState = how === 'refused' ? 2 : 0
    this.#listeners.get('error')?.({} as Event)
  }
}

function watching({ signedIn = true } = {}) {
  const connections: Connection[] = []
  const told: string[] = []
  const watch = new Watch(
    '/v1/watch',
    {
      message: (kind, message) => told.push(`${kind} ${message.sub}`),
      status: (status) => told.push(status),
      refused: () => Promise.resolve(signedIn),
    },
    () => {
      connections.push(new Connection())
      return connections.at(-1) as Connection
    },
  )
  return { watch, connections, told, last: () => connections.at(-1) as Connection }
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('it is live with the first message', () => {
  const { told, last } = watching()
  last().says('snapshot', { sub: 'online' })
  expect(told).toEqual(['connecting', 'snapshot online', 'live'])
})

test('a broken network is left to the browser', async () => {
  const { told, last, connections } = watching()
  last().fails('broken')
  await vi.advanceTimersByTimeAsync(10_000)
  expect(told).toEqual(['connecting', 'reconnecting'])
  expect(connections).toHaveLength(1)
})

test('a refused stream is opened again, ever more seldom', async () => {
  const { last, connections } = watching()
  for (const [waitMs, opened] of [[1_000, 2], [2_000, 3], [4_000, 4]] as const) {
    last().fails('refused')
    await vi.advanceTimersByTimeAsync(waitMs - 1)
    expect(connections).toHaveLength(opened - 1)
    await vi.advanceTimersByTimeAsync(1)
    expect(connections).toHaveLength(opened)
  }
})

test('who is signed out is not connected again', async () => {
  const { last, connections } = watching({ signedIn: false })
  last().fails('refused')
  await vi.advanceTimersByTimeAsync(120_000)
  expect(connections).toHaveLength(1)
})

test('a connection that fell silent is replaced', async () => {
  const { told, last, connections } = watching()
  last().says('snapshot', { sub: 'online' })
  const silent = last()
  await vi.advanceTimersByTimeAsync(45_000)
  expect(told.at(-1)).toBe('reconnecting')
  expect(connections).toHaveLength(2)
  silent.says('change', { sub: 'online' })
  expect(told.at(-1)).toBe('reconnecting')
})

test('nothing happens after it was closed', async () => {
  const { watch, last, connections } = watching()
  last().fails('refused')
  watch.close()
  await vi.advanceTimersByTimeAsync(120_000)
  expect(connections).toHaveLength(1)
})
