import { expect, test } from 'vitest'
import type { Answer, AnswerSeries } from './answer'
import { axisRange, extent, gridLines, spread, stacked, strokesOf } from './chart-data'

const series = (values: (number | null)[]): AnswerSeries => ({
  id: 'A', label: 'A', letter: 'A', key: {}, isOther: false, unit: 'number', isAdditive: true, values, total: 0,
})
const answer = { partialFrom: 2 } as Answer

test('the incomplete bucket is a stroke of its own, joined to the last complete one', () => {
  expect(strokesOf(series([1, 2, 3]), answer, false, false)).toEqual({ main: [1, 2, null], partial: [null, 2, 3], before: undefined })
  expect(strokesOf(series([1, 2, 3]), answer, false, true).partial).toEqual([null, null, 3])
  expect(strokesOf(series([1, 2, 3]), {} as Answer, false, false).partial).toEqual([null, null, null])
})

test('zero is a point, but not on a logarithmic axis', () => {
  expect(strokesOf(series([0, 5]), {} as Answer, false, false).main).toEqual([0, 5])
  expect(strokesOf(series([0, 5]), {} as Answer, true, false).main).toEqual([null, 5])
})

test('stacked series end at their sum', () => {
  expect(stacked([series([1, null]), series([2, 3])]).map(({ values }) => values)).toEqual([[3, 3], [2, 3]])
})

test('an axis has round grid lines from zero', () => {
  expect(gridLines(axisRange(3, 37))).toEqual([0, 10, 20, 30, 40])
  expect(axisRange(0.1, 0.93, 1)).toEqual({ low: 0, high: 1, step: 0.25 })
  expect(gridLines(axisRange(-8, 3)).at(0)).toBeLessThanOrEqual(-8)
  expect(gridLines(axisRange(0, 0))).toEqual([0, 0.25, 0.5, 0.75, 1])
})

test('the extent ignores missing values', () => {
  expect(extent([[null, 2], [5, null]])).toEqual([2, 5])
  expect(extent([[null]])).toEqual([0, 0])
})

test('labels are spread over the axis', () => {
  expect(spread([1, 2, 3, 4, 5], 3)).toEqual([1, 3, 5])
  expect(spread([1, 2], 10)).toEqual([1, 2])
})
