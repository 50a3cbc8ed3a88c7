import { expect, test } from 'vitest'
import { formatFunnel, funnelBody, funnelTable, immatureNote, largestDrop, parseFunnel, stagesOf, windowSeconds, type FunnelStep } from './funnel'
import { levelsInOrder, templatesOf } from './templates'

const parse = (text: string) => parseFunnel(new URLSearchParams(text))
const step = (players: number, conversion: number | null = null): FunnelStep => ({ event: 'e', players, conversion, median_s: 1, p90_s: 2 })

test('the funnel of a URL is written as the same URL', () => {
  const text = 's=level_start%3Blevel%2C%3D%2C3&s=level_win&window=1h&order=strict&by=country&where=platform%2C%3D%2Cweb&last=90d'
  const { funnel, errors } = parse(text)
  expect(errors).toEqual([])
  expect(formatFunnel(funnel).toString()).toBe(text)
  expect(formatFunnel(parse('').funnel).toString()).toBe('')
})

test('unusable parameters are named', () => {
  expect(parse('s=a&s=;x&window=soon&order=odd').errors.map(({ parameter }) => parameter)).toEqual(['window', 's', 'order'])
})

test('a window is a duration of at most ten years', () => {
  expect(windowSeconds('30m')).toBe(1_800)
  for (const text of ['0d', '7', '9999d', 'd']) expect(windowSeconds(text)).toBe(0)
})

test('the request has the steps with their conditions and only what is not a default', () => {
  const body = funnelBody(parse('s=a;level,=,1&s=b&last=90d').funnel, 'UTC', 0)
  expect(body).toEqual({
    steps: [{ event: 'a', where: [{ property: 'level', op: '=', value: '1' }] }, { event: 'b' }],
    window_s: 604_800,
    tz: 'UTC',
    last: '89d',
  })
})

test('a stage has its rate of the step before, and the players who dropped', () => {
  expect(stagesOf([step(100), step(40), step(0), step(0)])).toEqual([
    { rate: null, dropped: 0 },
    { rate: 0.4, dropped: 60 },
    { rate: 0, dropped: 40 },
    { rate: null, dropped: 0 },
  ])
})

test('the largest drop is where the most players quit', () => {
  expect(largestDrop([step(100), step(90), step(30), step(10)])).toBe(2)
  expect(largestDrop([step(5), step(5)])).toBeUndefined()
})

test('players whose window is not over are mentioned only while they matter', () => {
  const note = (text: string) => immatureNote(parse(text).funnel, 'UTC', Date.UTC(2026, 10, 20))
  expect(note('window=7d')).toContain('the last 7 days')
  expect(note('window=1h')).toBeUndefined()
  expect(note('window=7d&from=2026-10-01&to=2026-10-31')).toBeUndefined()
})

test('the table has a row for each step of each value', () => {
  const { funnel } = parse('s=a&s=b&by=country')
  const steps = [step(4, 1), step(2, 0.5)]
  const table = funnelTable(funnel, { as_of: { time: '', position: '' }, steps, series: [{ key: { country: 'FR' }, steps }] })
  expect(table.columns).toEqual(['country', 'step', 'event', 'players', 'conversion', 'median_s', 'p90_s'])
  expect(table.rows).toEqual([
    ['France', 1, 'a', 4, 1, 1, 2],
    ['France', 2, 'b', 2, 0.5, 1, 2],
  ])
})

test('levels are in the order of their numbers', () => {
  expect(levelsInOrder(['10', '2', '1'])).toEqual(['1', '2', '10'])
  expect(levelsInOrder(['swamp', 'castle'])).toEqual(['swamp', 'castle'])
})

test('templates are offered for the events that the game sends', () => {
  const names = (events: string[], levels: string[] = []) => templatesOf(new Set(events), levels).map(({ name }) => name)
  expect(names([])).toEqual([])
  expect(names(['level_start', 'purchase'], ['1', '2'])).toEqual(['Level progression'])
  expect(names(['$session_start', 'tutorial_done', 'shop_open', 'purchase'])).toEqual(['First session', 'Purchase'])
  const [levels] = templatesOf(new Set(['$level']), ['2', '1'])
  expect(levels?.steps[0]).toEqual({
    event: '$level',
    where: [[{ property: 'props.state', op: '=', values: ['start'] }], [{ property: 'level', op: '=', values: ['1'] }]],
  })
})
