import { expect, test } from 'vitest'
import type { QueryResult } from '../../stream/protocol'
import { historyOf, historyQueries, parseRange } from './history'

const MINUTES = ['12:00', '12:01', '12:02'].map((at) => `2026-11-20T${at}:00Z`)

/** A result as the server returns it: the series of a single metric has no name. */
function result(lines: Record<string, (number | null)[]>, at = '12:02:30'): QueryResult {
  const all = Object.entries(lines)
  const series = all.map(([name, values]) => ({ ...(all.length > 1 ? { name } : {}), key: {}, values, total: 0 }))
  return { as_of: { time: `2026-11-20T${at}Z`, position: '0/0' }, step: 'minute', tz: 'UTC', times: MINUTES, series }
}

test('the current minute is null instead of a drop to zero', () => {
  const quality = result({ running: [3, 4, 0], lost: [1, 2, null], expected: [10, 40, null], mos_p50: [4, 4.2, null] })
  const history = historyOf('60m', [quality, result({ ended: [0, 1, 1] })])
  expect(history.running).toEqual([3, 4, null])
  expect(history.ended).toEqual([0, 1, null])
  expect(history.endedTotal).toBe(2)
  expect(history.loss).toEqual([0.1, 0.05, null])
  expect(history.mosP50).toEqual([4, 4.2, null])
})

test('a minute that has just ended is null until it is reported', () => {
  const quality = result({ running: [3, 0, 0], lost: [] }, '12:02:01')
  expect(historyOf('60m', [quality, result({})]).running).toEqual([3, null, null])
})

test('an hourly value is the average of its minutes', () => {
  const quality = { ...result({ running: [120, 0, 0], lost: [] }), times: ['10:00', '11:00', '12:00'].map((at) => `2026-11-20T${at}:00Z`) }
  expect(historyOf('7d', [quality, result({})]).running).toEqual([2, 0, null])
})

test('without flows all values are null', () => {
  const history = historyOf('60m', [result({ running: [0, 0, 0], lost: [] }), result({})])
  expect(history.running).toEqual([null, null, null])
  expect(historyOf('60m', []).times).toEqual([])
})

test('a query has at most ten metrics', () => {
  for (const { metrics } of historyQueries('6h')) expect(JSON.parse(metrics).length).toBeLessThanOrEqual(10)
  expect(['60m', '7d', '9y', ''].map(parseRange)).toEqual(['60m', '7d', '60m', '60m'])
})
