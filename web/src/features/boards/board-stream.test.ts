import { expect, test, vi } from 'vitest'
import { Client } from '../../client'
import type { EventSourceLike } from '../../stream/connection'
import { BoardStream } from './board-stream'

const CLOSED = 2

class FakeEventSource implements EventSourceLike {
  readyState = 0
  listeners = new Map<string, (event: Event) => void>()
  close() {
    this.readyState = CLOSED
  }
  addEventListener(kind: string, listener: unknown) {
    this.listeners.set(kind, listener as (event: Event) => void)
  }
  emit(kind: string, data: object) {
    this.listeners.get(kind)?.({ data: JSON.stringify(data) } as unknown as Event)
  }
  reject() {
    this.readyState = CLOSED
    this.listeners.get('error')?.({} as Event)
  }
}

function open() {
  const sources: FakeEventSource[] = []
  const client = new Client({ id: 'demo', name: '', public_key: '', tz: 'UTC' }, '', () => undefined)
  const handlers = { page: vi.fn(), unavailable: vi.fn(), checkSignedIn: () => Promise.resolve(true) }
  const connect = () => {
    const source = new FakeEventSource()
    sources.push(source)
    return source
  }
  const stream = new BoardStream(client, { board: 'stars' }, handlers, connect)
  return { source: sources[0]!, sources, handlers, stream }
}

test('a page from the stream is reported with its time', () => {
  const { source, handlers, stream } = open()
  const page = { table: 'stars', rows: [], total: 0, as_of: { time: '2026-11-20T12:00:00Z' } }
  source.emit('snapshot', page)
  expect(handlers.page).toHaveBeenCalledWith(page, '2026-11-20T12:00:00Z')
  source.emit('change', { error: 'there is no board' })
  expect(handlers.page).toHaveBeenCalledOnce()
  stream.close()
})

test('a server without a stream for leaderboards is reported once', async () => {
  const { source, sources, handlers, stream } = open()
  source.reject()
  await vi.waitFor(() => expect(handlers.unavailable).toHaveBeenCalledOnce())
  expect(sources).toHaveLength(1)
  stream.close()
})
