import { expect, test } from 'vitest'
import type { QueryAnswer } from '../../stream/protocol'
import { historyOf, questions, rangeOf } from './history'

const MINUTES = ['12:00', '12:01', '12:02'].map((at) => `2026-11-20T${at}:00Z`)

/** As the server answers: the series of a single metric has no name. */
function answer(lines: Record<string, (number | null)[]>, at = '12:02:30'): QueryAnswer {
  const all = Object.entries(lines)
  const series = all.map(([name, values]) => ({ ...(all.length > 1 ? { name } : {}), key: {}, values, total: 0 }))
  return { as_of: { time: `2026-11-20T${at}Z`, position: '0/0' }, step: 'minute', tz: 'UTC', times: MINUTES, series }
}

test('the minute that goes on is no drop to nothing', () => {
  const quality = answer({ running: [3, 4, 0], lost: [1, 2, null], expected: [10, 40, null], mos_p50: [4, 4.2, null] })
  const history = historyOf('60m', [quality, answer({ ended: [0, 1, 1] })])
  expect(history.running).toEqual([3, 4, null])
  expect(history.ended).toEqual([0, 1, null])
  expect(history.endedTotal).toBe(2)
  expect(history.loss).toEqual([0.1, 0.05, null])
  expect(history.mosP50).toEqual([4, 4.2, null])
})

test('a minute that has only just ended may not be told yet', () => {
  const quality = answer({ running: [3, 0, 0], lost: [] }, '12:02:01')
  expect(historyOf('60m', [quality, answer({})]).running).toEqual([3, null, null])
})

test('an hour has the mean of its minutes', () => {
  const quality = { ...answer({ running: [120, 0, 0], lost: [] }), times: ['10:00', '11:00', '12:00'].map((at) => `2026-11-20T${at}:00Z`) }
  expect(historyOf('7d', [quality, answer({})]).running).toEqual([2, 0, null])
})

test('of no flow nothing is known', () => {
  const history = historyOf('60m', [answer({ running: [0, 0, 0], lost: [] }), answer({})])
  expect(history.running).toEqual([null, null, null])
  expect(historyOf('60m', []).times).toEqual([])
})

test('a question has no more metrics than the server takes', () => {
  for (const { metrics } of questions('6h')) expect(JSON.parse(metrics).length).toBeLessThanOrEqual(10)
  expect(['60m', '7d', '9y', ''].map(rangeOf)).toEqual(['60m', '7d', '60m', '60m'])
})
