import { expect, test } from 'vitest'
import { lines, top } from './scale'

test('the axis ends at a line at or above the greatest value', () => {
  expect(lines(top(0, 4))).toEqual([0, 1, 2, 3, 4])
  expect(lines(top(22, 4))).toEqual([0, 10, 20, 30])
  expect(lines(top(930, 5))).toEqual([0, 250, 500, 750, 1000])
  expect(lines(top(75_000, 5))).toEqual([0, 20_000, 40_000, 60_000, 80_000])
})

test('every top is a line, whatever the value', () => {
  for (let value = 0; value < 20_000; value += 7) {
    const high = top(value, 4)
    expect(high).toBeGreaterThanOrEqual(value)
    expect(lines(high).at(-1)).toBe(high)
  }
})
