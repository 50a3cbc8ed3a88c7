import { expect, test } from 'vitest'
import { combine, planQuestion, PlanError, sentBody, type ApiAnswer, type GameSchema } from './plan'
import { parseQuestion } from './question'

const NOW = Date.parse('2026-11-23T00:30:00Z')
const AS_OF = { time: '2026-11-23T00:30:00Z', position: '0/1' }
const SCHEMA: GameSchema = {
  dimensions: new Set(['country', 'platform', 'level', 'mode']),
  declared: new Set(['mode']),
  events: new Map([['level_start', 9], ['level_win', 5], ['purchase', 1]]),
}
const plan = (query: string) => planQuestion(parseQuestion(new URLSearchParams(query), 'UTC').question, SCHEMA, NOW)
const paths = (query: string) => plan(query).requests.map(({ path }) => path)

test('the active players of a week are read from rollups and kept current', () => {
  const { requests, isLive } = plan('')
  expect(requests).toEqual([{ path: '/v1/query', body: { metric: 'players', step: 'day', last: '6d', tz: 'UTC' }, leaves: ['A'] }])
  expect(isLive).toBe(true)
})

test('a rate asks for both counts, the larger first', () => {
  const [request] = plan('metric=level_win_rate&where=level,=,3&by=country&compare=previous').requests
  expect(request?.body).toEqual({
    metrics: [{ as: 'A_whole', metric: 'level_start' }, { as: 'A_part', metric: 'level_win' }],
    where: { level: ['3'] },
    by: ['country'],
    top: 7,
    step: 'day',
    last: '6d',
    tz: 'UTC',
    compare: 'previous',
  })
})

test('raw events answer what the rollups do not have', () => {
  expect(paths('metric=purchase&where=country,=,FR&by=platform')).toEqual(['/v1/query'])
  expect(paths('metric=purchase&by=mode')).toEqual(['/v1/query'])
  expect(paths('metric=purchase&by=props.item')).toEqual(['/v1/explore'])
  expect(paths('metric=purchase&where=country,!=,FR')).toEqual(['/v1/explore'])
  expect(paths('metric=purchase&by=mode&where=country,=,FR')).toEqual(['/v1/explore'])
  expect(paths('metric=players&by=country&where=platform,=,web')).toEqual(['/v1/explore'])
  expect(paths('metric=purchase&measure=sum&property=props.price')).toEqual(['/v1/explore'])
  expect(paths('metric=purchase&measure=sum')).toEqual(['/v1/query'])
  expect(paths('metric=level_start&b.metric=level_win&b.where=level,=,3')).toEqual(['/v1/explore', '/v1/explore'])
})

test('a metric without raw events cannot be filtered by other properties', () => {
  expect(() => plan('metric=sessions&where=props.vip,=,true')).toThrow(PlanError)
})

test('a formula over rollups is shown in the request but not sent', () => {
  const [request] = plan('metric=level_start&b.metric=level_win&formula=B / A').requests
  expect(request?.body['formula']).toBe('B / A')
  expect(request && sentBody(request)).not.toHaveProperty('formula')
  expect(() => plan('metric=level_start&formula=A / X')).toThrow('"X" is not a series')
})

const TIMES = ['2026-11-22T00:00:00Z', '2026-11-23T00:00:00Z']

test('a rate is computed per bucket and in total, with the current bucket incomplete', () => {
  const response: ApiAnswer = {
    as_of: AS_OF,
    step: 'day',
    tz: 'UTC',
    times: TIMES,
    series: [
      { name: 'A_whole', key: { country: '(other)' }, values: [4, 0], total: 4 },
      { name: 'A_whole', key: { country: 'FR' }, values: [10, 2], total: 12 },
      { name: 'A_part', key: { country: 'FR' }, values: [5, 1], total: 6 },
      { name: 'A_part', key: { country: '(other)' }, values: [1, 0], total: 1 },
    ],
    compare: { times: TIMES, series: [{ name: 'A_whole', key: { country: 'FR' }, values: [2, 2], total: 4 }, { name: 'A_part', key: { country: 'FR' }, values: [1, 0], total: 1 }] },
  }
  const answer = combine(plan('metric=level_win_rate&by=country&compare=previous'), [response])
  expect(answer.series.map(({ id, label, values, total, n }) => ({ id, label, values, total, n }))).toEqual([
    { id: 'FR', label: 'France', values: [0.5, 0.5], total: 0.5, n: 12 },
    { id: '(other)', label: 'Other', values: [0.25, null], total: 0.25, n: 4 },
  ])
  expect(answer.series[0]?.before).toEqual({ values: [0.5, 0], total: 0.25, n: 4 })
  expect(answer.partialFrom).toBe(1)
})

test('answers from raw events are joined by key, and what is left over is combined', () => {
  const answer = (series: ApiAnswer['series']): ApiAnswer => ({ as_of: AS_OF, step: 'day', tz: 'UTC', times: TIMES, series })
  const key = (item: string) => ({ 'props.item': item })
  const joined = combine(plan('metric=level_start&b.metric=level_win&by=props.item&formula=B / A&top=1'), [
    answer([{ key: key('gems'), values: [8, 8], total: 16 }, { key: key('(other)'), values: [4, 4], total: 8 }]),
    answer([{ key: key('skin'), values: [1, 1], total: 2 }, { key: key('gems'), values: [2, 4], total: 6 }, { key: key('pass'), values: [1, 0], total: 1 }]),
  ])
  expect(joined.series.map(({ label, values }) => [label, values])).toEqual([
    ['gems', [0.25, 0.5]],
    ['Other', [0.5, 0.25]],
  ])
})

const rawAnswer = (rows: Record<string, number[]>): ApiAnswer => ({
  as_of: AS_OF,
  step: 'day',
  tz: 'UTC',
  times: TIMES,
  series: Object.entries(rows).map(([item, values]) => ({ key: { 'props.item': item }, values, total: values.reduce((a, b) => a + b, 0) })),
})
const shown = (query: string, ...rows: Record<string, number[]>[]) =>
  combine(plan(query), rows.map(rawAnswer)).series.map(({ label, values }) => [label, values])

test('distinct players of the remaining values are unknown: they do not add up', () => {
  const query = 'metric=level_start&b.metric=level_win&b.measure=uniques&by=props.item&formula=B / A&top=1'
  expect(shown(query, { gems: [8, 8], '(other)': [4, 4] }, { gems: [2, 4], skin: [1, 1], pass: [1, 1] })).toEqual([['gems', [0.25, 0.5]]])
})

test('a value without events of one metric counts 0, and has no mean', () => {
  const query = 'metric=level_start&b.metric=level_win&by=props.item'
  expect(shown(`${query}&formula=B / A`, { gems: [8, 8] }, {})).toEqual([['gems', [0, 0]]])
  expect(shown(`${query}&b.measure=avg&b.property=props.n&formula=B / A`, { gems: [8, 8] }, {})).toEqual([['gems', [null, null]]])
})

test('values that only the second metric has are shown up to the number of series', () => {
  const query = 'metric=level_start&b.metric=level_win&by=props.item&formula=A %2B B&top=2'
  expect(shown(query, { gems: [8, 8] }, { skin: [3, 1], pass: [1, 1], gems: [1, 1], bow: [1, 0] })).toEqual([
    ['gems', [9, 9]],
    ['skin', [3, 1]],
    ['Other', [2, 1]],
  ])
  expect(shown(query, {}, { skin: [3, 1] })).toEqual([['skin', [3, 1]]])
})

test('several metrics without a breakdown are several series', () => {
  const answer = combine(plan('metric=level_start&b.metric=level_win'), [
    { as_of: AS_OF, step: 'day', tz: 'UTC', times: TIMES, series: [{ name: 'A', key: {}, values: [3, 4], total: 7 }, { name: 'B', key: {}, values: [1, 2], total: 3 }] },
  ])
  expect(answer.series.map(({ id, label, total }) => [id, label, total])).toEqual([['A', 'level_start', 7], ['B', 'level_win', 3]])
})
