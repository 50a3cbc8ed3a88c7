import { expect, test } from 'vitest'
import type { LiveEvent, Message, MessageKind, Outcome, Totals } from '../../stream/protocol'
import { EVENTS_MAX, hasNoEvents, INITIAL_STATE, reduce, type LiveState } from './state'

const AS_OF = { time: '2026-11-20T11:02:30Z', position: '0/9' }
const NONE: Totals = { received: 0, accepted: 0, duplicate: 0, invalid: 0, late: 0, limited: 0 }

function after(...messages: [MessageKind, Message][]): LiveState {
  return messages.reduce((state, [kind, message]) => reduce(state, kind, message), INITIAL_STATE)
}

function event(n: number, outcome: Outcome = 'accepted'): LiveEvent {
  return { n, time: AS_OF.time, event: 'hello', outcome }
}

function events(...numbers: number[]): Message {
  return { sub: 'events', as_of: AS_OF, events: numbers.map((n) => event(n)) }
}

function added(...numbers: number[]): Message {
  return { sub: 'events', as_of: AS_OF, added: numbers.map((n) => event(n)) }
}

function load(accepted: number[], totals: Partial<Totals> = {}, from = AS_OF.time): Message {
  const refused = accepted.map(() => 0)
  const second = { from, accepted, refused, samples: refused }
  return { sub: 'load', as_of: AS_OF, second, totals: { ...NONE, ...totals } }
}

test('a change before its snapshot is ignored', () => {
  const state = after(
    ['change', { sub: 'online', as_of: AS_OF, online: 3 }],
    ['change', added(1)],
    ['change', load([1])],
    ['change', { sub: 'query0', as_of: AS_OF, points: [] }],
  )
  expect(state).toEqual({ queries: [undefined], failures: {} })
})

test('added events precede earlier ones and duplicates are dropped', () => {
  const state = after(['snapshot', events(2, 1)], ['change', added(4, 3, 2)])
  expect(state.events?.events.map(({ n }) => n)).toEqual([4, 3, 2, 1])
  expect(state.events?.arrived).toBe(2)
})

test('the list of events is bounded', () => {
  const numbers = Array.from({ length: 80 }, (_, i) => 80 - i)
  const state = after(['snapshot', events()], ['change', added(...numbers)])
  expect(state.events?.events).toHaveLength(EVENTS_MAX)
  expect(state.events?.events[0]?.n).toBe(80)
})

test('rejected events are kept when accepted ones push them out of the list', () => {
  const rejected: Message = { sub: 'events', as_of: AS_OF, added: [event(1, 'invalid')] }
  const numbers = Array.from({ length: EVENTS_MAX }, (_, i) => EVENTS_MAX + 1 - i)
  const state = after(['snapshot', events()], ['change', rejected], ['change', added(...numbers)])
  expect(state.events?.events.some(({ n }) => n === 1)).toBe(false)
  expect(state.events?.rejected.map(({ n }) => n)).toEqual([1])
})

test('skipped events are counted', () => {
  const many: Message = { sub: 'events', as_of: AS_OF, added: [event(200)], skipped: 120 }
  const { arrived, skipped } = after(['snapshot', events()], ['change', many]).events ?? {}
  expect({ arrived, skipped }).toEqual({ arrived: 121, skipped: 120 })
})

test('a reset replaces all events', () => {
  const state = after(['snapshot', events(9, 8)], ['reset', events(1)])
  expect(state.events?.events.map(({ n }) => n)).toEqual([1])
})

test('players online update the current minute', () => {
  const minutes = [
    { time: '2026-11-20T11:01:00Z', players: 5 },
    { time: '2026-11-20T11:02:00Z', players: 6 },
  ]
  const state = after(
    ['snapshot', { sub: 'online', as_of: AS_OF, online: 6, minutes }],
    ['change', { sub: 'online', as_of: AS_OF, online: 9 }],
  )
  expect(state.online?.players).toBe(9)
  expect(state.online?.minutes.map(({ players }) => players)).toEqual([5, 9])
})

test('seconds of a change replace those of the snapshot', () => {
  const state = after(
    ['snapshot', load([1, 1], {}, '2026-11-20T11:02:28Z')],
    ['change', load([4, 2], { received: 6, accepted: 6 }, '2026-11-20T11:02:29Z')],
  )
  expect(state.load?.seconds.accepted).toEqual([1, 4, 2])
  expect(state.load?.totals.received).toBe(6)
})

test('fields that a load change omits are kept', () => {
  const first = { ...load([1]), since: '2026-11-20T00:00:00Z', reasons: { unknown_field: 2 }, samples: 4 }
  const state = after(['snapshot', first as Message], ['change', load([2])])
  expect(state.load?.since).toBe('2026-11-20T00:00:00Z')
  expect(state.load?.reasons).toEqual({ unknown_field: 2 })
  expect([state.load?.samples, state.load?.otherEvents]).toEqual([4, 0])
})

test('query messages are matched by their number', () => {
  const answer = { as_of: AS_OF, step: 'all', tz: 'UTC', times: ['x'] }
  const series = [{ key: { event: 'win' }, values: [1], total: 1 }]
  const state = after(
    ['snapshot', { sub: 'query2', ...answer, series: [] }],
    ['snapshot', { sub: 'query1', ...answer, series }],
    ['change', { sub: 'query1', as_of: AS_OF, totals: [{ key: { event: 'win' }, total: 8 }] }],
  )
  expect(state.queries[1]?.series[0]?.total).toBe(8)
  expect(state.queries[2]?.series).toEqual([])
})

test('a game has no events until something was received', () => {
  expect(hasNoEvents(INITIAL_STATE)).toBe(false)
  expect(hasNoEvents(after(['snapshot', events()], ['snapshot', load([0])]))).toBe(true)
  expect(hasNoEvents(after(['snapshot', events()], ['snapshot', load([1], { received: 1 })]))).toBe(false)
})

test('a failure keeps the last result and is cleared by the next one', () => {
  const whole: Message = { sub: 'query0', as_of: AS_OF, step: 'minute', tz: 'UTC', times: [], series: [] }
  const failed = (sub: 'load' | 'query0'): [MessageKind, Message] => ['reset', { sub, as_of: AS_OF, error: 'the disk is full' }]
  const before = after(['snapshot', whole], ['snapshot', load([1])])
  const broken = [failed('query0'), failed('load')].reduce((state, message) => reduce(state, ...message), before)
  expect(broken).toEqual({ ...before, failures: { query0: 'the disk is full', load: 'the disk is full' } })
  expect(reduce(broken, 'change', load([2])).failures).toEqual({ query0: 'the disk is full' })
  expect(reduce(broken, 'reset', whole).failures).toEqual({ load: 'the disk is full' })
})

test('a failure before the first result is stored', () => {
  const state = after(['snapshot', { sub: 'query0', as_of: AS_OF, error: 'there is no answer yet' }])
  expect(state).toEqual({ queries: [], failures: { query0: 'there is no answer yet' } })
})
