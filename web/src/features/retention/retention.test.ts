import { expect, test } from 'vitest'
import {
  cellOf,
  cohortName,
  formatRetention,
  groupsOf,
  meansOf,
  parseRetention,
  retentionBody,
  retentionTable,
  shownGroup,
  shownPeriods,
  type Cohort,
} from './retention'

const parse = (text: string) => parseRetention(new URLSearchParams(text))
const cohorts: Cohort[] = [
  { start: '2026-11-01', players: 100, returned: [100, 40, 20], complete: 3 },
  { start: '2026-11-02', players: 50, returned: [50, 0, null], complete: 2 },
  { start: '2026-11-03', players: 10, returned: [3, null, null], complete: 0 },
  { start: '2026-11-04', players: 0, returned: [null, null, null], complete: 0 },
]

test('the question of a URL is written as the same URL', () => {
  const text = 'start=a%3Blevel%2C%3D%2C1&return=b&step=week&periods=13&kind=rolling&by=country&of=FR&unit=players&where=platform%2C%3D%2Cweb&last=90d'
  const { retention, errors } = parse(text)
  expect(errors).toEqual([])
  expect(formatRetention(retention).toString()).toBe(text)
  expect(formatRetention(parse('').retention).toString()).toBe('')
  expect(parse('kind=odd&periods=1').errors.map(({ parameter }) => parameter)).toEqual(['periods', 'kind'])
})

test('the mean is returned by eligible, also of cohorts of which none came back', () => {
  expect(meansOf(cohorts, 4)).toEqual([
    { returned: 150, eligible: 150, rate: 1 },
    { returned: 40, eligible: 150, rate: 40 / 150 },
    { returned: 20, eligible: 100, rate: 0.2 },
    { returned: 0, eligible: 0, rate: null },
  ])
})

test('a period that is not over is open, and one after the range has no cell', () => {
  const [first, second, third, last] = cohorts as [Cohort, Cohort, Cohort, Cohort]
  expect(cellOf(first, 2)).toEqual({ is: 'complete', returned: 20, rate: 0.2, isFew: false })
  expect(cellOf(second, 1)).toEqual({ is: 'complete', returned: 0, rate: 0, isFew: false })
  expect(cellOf(third, 0)).toEqual({ is: 'open', returned: 3, rate: 0.3 })
  expect(cellOf(second, 2)).toEqual({ is: 'none' })
  expect(cellOf(last, 0)).toEqual({ is: 'none' })
  expect(shownPeriods(cohorts, 15)).toBe(3)
})

test('values that are shown by the same name are different groups', () => {
  const values = ['(other)', 'Other', '', 'Not set', 'all']
  const answer = { as_of: { time: '', position: '' }, cohorts, series: values.map((mode) => ({ key: { mode }, cohorts })) }
  expect(new Set(groupsOf(answer).map(({ id }) => id)).size).toBe(6)
  const shown = (query: string) => shownGroup(parse(query).retention, answer).value
  expect([shown('of=Other'), shown('of='), shown('of=all'), shown(''), shown('of=gone')]).toEqual(['Other', '', 'all', undefined, undefined])
})

test('the request has enough periods for the large figures', () => {
  const body = retentionBody(parse('periods=8').retention, { event: 's', where: [] }, 'UTC', 0)
  expect(body).toEqual({ start: { event: 's' }, return: { event: 's' }, step: 'day', periods: 31, kind: 'classic', tz: 'UTC', last: '29d' })
})

test('fewer shown periods need no other request', () => {
  const body = (query: string) => retentionBody(parse(query).retention, { event: 's', where: [] }, 'UTC', 0)
  expect(body('periods=8')).toEqual(body('periods=31'))
  expect([2, 3].map((periods) => shownPeriods(cohorts, periods))).toEqual([2, 3])
})

test('cohorts are named by their first day', () => {
  expect(cohortName('2026-11-20', 'day')).toBe('Fri 20 Nov')
  expect(cohortName('2026-11-16', 'week')).toBe('Week of Mon 16 Nov')
  expect(cohortName('2026-11-01', 'month')).toBe('Nov 2026')
})

test('the table has no rows for periods after the range, and marks open ones', () => {
  const table = retentionTable(parse('').retention, { as_of: { time: '', position: '' }, cohorts, series: [] })
  expect(table.rows.length).toBe(6)
  expect(table.rows.at(-1)).toEqual(['2026-11-03', 0, 10, 3, 'no'])
})
