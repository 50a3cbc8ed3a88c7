import { expect, test } from 'vitest'
import { axisTop, gridLines } from './scale'

test('the axis ends at a grid line at or above the maximum', () => {
  expect(gridLines(axisTop(0, 4))).toEqual([0, 1, 2, 3, 4])
  expect(gridLines(axisTop(22, 4))).toEqual([0, 10, 20, 30])
  expect(gridLines(axisTop(930, 5))).toEqual([0, 250, 500, 750, 1000])
  expect(gridLines(axisTop(75_000, 5))).toEqual([0, 20_000, 40_000, 60_000, 80_000])
})

test('the top of the axis is a grid line for every value', () => {
  for (let value = 0; value < 20_000; value += 7) {
    const high = axisTop(value, 4)
    expect(high).toBeGreaterThanOrEqual(value)
    expect(gridLines(high).at(-1)).toBe(high)
  }
})
