import { expect, test } from 'vitest'
import { cellOf, chartOf, hasChart, isNumber, quoted, tableOf, type SqlResult } from './sql'

const AS_OF = '2026-11-23T00:00:00Z'
const result = (columns: [string, string][], rows: SqlResult['rows']): SqlResult => ({
  columns: columns.map(([name, type]) => ({ name, type })),
  rows,
  truncated: false,
})

test('numbers are recognized by their type', () => {
  const types = ['BIGINT', 'INTEGER', 'UINTEGER', 'HUGEINT', 'DOUBLE', 'DECIMAL(18,3)', 'VARCHAR', 'TIMESTAMP', 'INTERVAL', 'INTEGER[]']
  expect(types.filter((type) => isNumber({ name: 'n', type }))).toEqual(types.slice(0, 6))
})

test('a column of times and columns of numbers make one line per number', () => {
  const chart = chartOf(
    result([['day', 'TIMESTAMP'], ['n', 'BIGINT'], ['share', 'DOUBLE']], [['2026-11-02T00:00:00', 2, 0.5], ['2026-11-01T00:00:00', '9007199254740993', null]]),
    AS_OF,
  )
  expect(chart?.kind).toBe('time')
  expect(chart?.answer.times).toEqual([Date.parse('2026-11-01T00:00Z') / 1000, Date.parse('2026-11-02T00:00Z') / 1000])
  expect(chart?.answer.series.map(({ label, values }) => [label, values])).toEqual([['n', [9007199254740992, 2]], ['share', [null, 0.5]]])
  expect(chart?.answer.step).toBe('day')
})

test('with texts there is one line per text, the largest first', () => {
  const chart = chartOf(
    result([['day', 'DATE'], ['country', 'VARCHAR'], ['n', 'BIGINT']], [['2026-11-01', 'FR', 1], ['2026-11-01', 'DE', 5], ['2026-11-02', 'FR', 2]]),
    AS_OF,
  )
  expect(chart?.answer.series.map(({ label, values }) => [label, values])).toEqual([['DE', [5, null]], ['FR', [1, 2]]])
})

test('of many texts over time those with the greatest sums have lines', () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => [new Date(i * 60_000).toISOString(), `player ${i}`, i] as [string, string, number])
  const long = result([['at', 'TIMESTAMP'], ['player', 'VARCHAR'], ['n', 'BIGINT']], rows)
  expect(hasChart(long)).toBe(true)
  const labels = chartOf(long, AS_OF)?.answer.series.map(({ label }) => label)
  expect(labels).toEqual(Array.from({ length: 12 }, (_, i) => `player ${9_999 - i}`))
})

test('texts and numbers make a ranking, and a result without numbers no chart', () => {
  const chart = chartOf(result([['event', 'VARCHAR'], ['n', 'BIGINT']], [['win', 3], [null, 1]]), AS_OF)
  expect(chart?.kind).toBe('ranking')
  expect(chart?.answer.series.map(({ label, total }) => [label, total])).toEqual([['win', 3], ['Not set', 1]])
  expect(chartOf(result([['event', 'VARCHAR']], [['win']]), AS_OF)).toBeUndefined()
  expect(chartOf(result([['n', 'BIGINT']], [[1]]), AS_OF)).toBeUndefined()
  expect([hasChart(result([['n', 'BIGINT']], [[1]])), hasChart(result([['event', 'VARCHAR']], [['win']]))]).toEqual([false, false])
})

test('lists and objects are JSON in a table', () => {
  expect(cellOf({ a: [1, null] })).toBe('{"a":[1,null]}')
  expect(tableOf(result([['a', 'BOOLEAN'], ['b', 'VARCHAR']], [[true, null]]))).toEqual({ columns: ['a', 'b'], rows: [['true', null]] })
})

test('a name with other characters needs quotes', () => {
  expect([quoted('player'), quoted('props.price'), quoted('a"b')]).toEqual(['player', '"props.price"', '"a""b"'])
})
