import { expect, test, vi } from 'vitest'
import { Client } from '../../client'
import type { Source } from '../../stream/watch'
import { LeafWatch } from './follow'

const CLOSED = 2

class FakeSource implements Source {
  readyState = 0
  listeners = new Map<string, (event: Event) => void>()
  close() {
    this.readyState = CLOSED
  }
  addEventListener(kind: string, listener: unknown) {
    this.listeners.set(kind, listener as (event: Event) => void)
  }
  say(kind: string, data: object) {
    this.listeners.get(kind)?.({ data: JSON.stringify(data) } as unknown as Event)
  }
  refuse() {
    this.readyState = CLOSED
    this.listeners.get('error')?.({} as Event)
  }
}

function follow() {
  const sources: FakeSource[] = []
  const client = new Client({ id: 'demo', name: '', public_key: '', tz: 'UTC' }, '', () => undefined)
  const events = { leaf: vi.fn(), alone: vi.fn(), stillSignedIn: () => Promise.resolve(true) }
  const connect = () => {
    const source = new FakeSource()
    sources.push(source)
    return source
  }
  const watch = new LeafWatch(client, { board: 'stars' }, events, connect)
  return { source: sources[0]!, sources, events, watch }
}

test('a leaf that comes by the stream is given on with its time', () => {
  const { source, events, watch } = follow()
  const leaf = { table: 'stars', rows: [], total: 0, as_of: { time: '2026-11-20T12:00:00Z' } }
  source.say('snapshot', leaf)
  expect(events.leaf).toHaveBeenCalledWith(leaf, '2026-11-20T12:00:00Z')
  source.say('change', { error: 'there is no board' })
  expect(events.leaf).toHaveBeenCalledOnce()
  watch.close()
})

test('where there is no stream for boards, it is said once', async () => {
  const { source, sources, events, watch } = follow()
  source.refuse()
  await vi.waitFor(() => expect(events.alone).toHaveBeenCalledOnce())
  expect(sources).toHaveLength(1)
  watch.close()
})
