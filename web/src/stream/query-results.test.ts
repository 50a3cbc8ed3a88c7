import { expect, test } from 'vitest'
import type { QueryChange, QueryResult } from './protocol'
import { applyChange, lastMinutes, OTHER, ranking, withOthers } from './query-results'

const AS_OF = { time: '2026-11-20T11:02:30Z', position: '0/9' }

function minutes(values: number[]): QueryResult {
  const times = values.map((_, i) => `2026-11-20T11:0${i}:00Z`)
  return { as_of: AS_OF, step: 'minute', tz: 'UTC', times, series: [{ key: {}, values, total: 0 }] }
}

function totals(byEvent: Record<string, number>): QueryResult {
  const series = Object.entries(byEvent).map(([event, total]) => ({
    key: { event },
    values: [total],
    total,
  }))
  return { as_of: AS_OF, step: 'all', tz: 'UTC', times: ['2026-11-20T10:02:00Z'], series }
}

function change(more: Omit<QueryChange, 'sub' | 'as_of'>): QueryChange {
  return { sub: 'query0', as_of: AS_OF, ...more }
}

test('a point replaces the value of its minute', () => {
  const points = [{ key: {}, time: '2026-11-20T11:01:00Z', value: 7 }]
  expect(applyChange(minutes([1, 2, 3]), change({ points })).series[0]?.values).toEqual([1, 7, 3])
})

test('a point is matched to its minute across time zones', () => {
  const points = [{ key: {}, time: '2026-11-20T12:01:00+01:00', value: 7 }]
  expect(applyChange(minutes([1, 2, 3]), change({ points })).series[0]?.values).toEqual([1, 7, 3])
})

test('a new minute adds a slot to every series', () => {
  const before = minutes([1, 2])
  before.series.push({ key: { event: 'win' }, values: [5, 6], total: 11 })
  const points = [{ key: {}, time: '2026-11-20T11:02:00Z', value: 3 }]
  const after = applyChange(before, change({ points }))
  expect(after.series.map((series) => series.values)).toEqual([
    [1, 2, 3],
    [5, 6, 0],
  ])
})

test('a point before the window is ignored', () => {
  const points = [{ key: {}, time: '2026-11-20T09:00:00Z', value: 3 }]
  expect(applyChange(minutes([1, 2]), change({ points })).series[0]?.values).toEqual([1, 2])
})

test('a total with a new key adds a series', () => {
  const change1 = change({ totals: [{ key: { event: 'hello' }, total: 1 }] })
  expect(ranking(applyChange(totals({ win: 3 }), change1), 'event')).toEqual([
    { name: 'win', total: 3, share: 0.75 },
    { name: 'hello', total: 1, share: 0.25 },
  ])
})

test('each metric has its own series, and missing gauge values are null', () => {
  const before = minutes([1, 2])
  before.series = [{ name: 'cpu', key: {}, values: [1, 2], total: 0 }]
  const time = '2026-11-20T11:02:00Z'
  const points = [
    { name: 'load', key: {}, time, value: 7 },
    { name: 'cpu', key: {}, time: '2026-11-20T11:01:00Z', value: null },
  ]
  const after = applyChange(before, change({ points }), null)
  expect(after.series.map(({ name, values }) => [name, values])).toEqual([
    ['cpu', [1, null, null]],
    ['load', [null, null, 7]],
  ])
})

test('a change does not modify the previous result', () => {
  const before = minutes([1, 2])
  applyChange(before, change({ points: [{ key: {}, time: before.times[0] ?? '', value: 9 }] }))
  expect(before.series[0]?.values).toEqual([1, 2])
})

test('an answer longer than a day of minutes keeps its length', () => {
  const start = Date.parse('2026-11-20T00:00:00Z')
  const time = (minute: number) => new Date(start + minute * 60_000).toISOString()
  const before = { ...minutes([]), times: Array.from({ length: 2_000 }, (_, i) => time(i)) }
  before.series = [{ key: {}, values: before.times.map((_, i) => i), total: 0 }]
  const after = applyChange(before, change({ points: [{ key: {}, time: time(1_999), value: 7 }] }))
  expect([after.times.length, after.times[0], after.series[0]?.values.at(-1)]).toEqual([2_000, time(0), 7])
  const next = applyChange(after, change({ points: [{ key: {}, time: time(2_000), value: 8 }] }))
  expect([next.times.length, next.times[0], next.series[0]?.values.at(-1)]).toEqual([2_000, time(1), 8])
})

test('the (other) row comes last even if it is the greatest', () => {
  const names = ranking(totals({ [OTHER]: 90, win: 3, start: 7 }), 'event').map(({ name }) => name)
  expect(names).toEqual(['start', 'win', OTHER])
})

test('minutes that the server omitted are zero', () => {
  const now = Date.parse('2026-11-20T11:04:10Z')
  expect(lastMinutes(minutes([1, 2, 3]), now, 4).values).toEqual([2, 3, 0, 0])
})

test('a result without series is an hour of zeros', () => {
  const nothing: QueryResult = { ...minutes([]), series: [] }
  expect(lastMinutes(nothing, Date.parse(AS_OF.time), 3).values).toEqual([0, 0, 0])
})

test('rows beyond the count and the rest of the server are one row', () => {
  const row = (name: string, total: number) => ({ name, total, share: total / 10 })
  const rows = [row('a', 5), row('b', 2), row('c', 1), row(OTHER, 2)]
  expect(withOthers(rows, 2).map(({ name, total }) => [name, total])).toEqual([['a', 5], ['b', 2], [OTHER, 3]])
  expect(withOthers(rows.slice(0, 2), 2)).toEqual(rows.slice(0, 2))
})
