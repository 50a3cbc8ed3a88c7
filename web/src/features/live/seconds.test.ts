import { expect, test } from 'vitest'
import { lastComplete, meanOfLast, movingMean, merge, windowOf, type SecondsWindow } from './seconds'

const START = Date.parse('2026-11-20T11:00:00Z')

/** A window that starts `at` seconds after eleven, without rejected events. */
function window(at: number, accepted: number[]): SecondsWindow {
  const from = new Date(START + at * 1000).toISOString()
  const none = accepted.map(() => 0)
  return windowOf({ from, accepted, refused: none, samples: none })
}

/** The accepted counts shown `now` seconds after eleven, if the last message is as of `asOf`. */
function shown(window: SecondsWindow, asOf: number, now: number, live = true) {
  return lastComplete(window, START + asOf * 1000, START + now * 1000, live, 4).accepted
}

test('later seconds are appended and the window slides', () => {
  const merged = merge(window(0, [1, 2, 3]), window(3, [4, 5]), 4)
  expect(merged.accepted).toEqual([2, 3, 4, 5])
})

test('a second that is reported again replaces its count', () => {
  expect(merge(window(0, [1, 2, 3]), window(2, [9, 4]), 10).accepted).toEqual([1, 2, 9, 4])
})

test('unreported seconds between two reports are zero', () => {
  expect(merge(window(0, [1]), window(3, [4]), 10).accepted).toEqual([1, 0, 0, 4])
})

test('an old report does not move the window back', () => {
  expect(merge(window(5, [5, 6]), window(4, [4]), 3).accepted).toEqual([4, 5, 6])
})

test('the incomplete second is not shown', () => {
  expect(shown(window(0, [1, 2, 3, 4, 1]), 4.4, 4.6)).toEqual([1, 2, 3, 4])
})

test('seconds before the first report are null', () => {
  expect(shown(window(0, [1, 2]), 2, 2)).toEqual([null, null, 1, 2])
})

test('unreported seconds of a live stream are zero after three seconds', () => {
  expect(shown(window(0, [1, 2, 3, 4]), 4, 9)).toEqual([3, 4, 0, 0])
})

test('the window of a disconnected stream does not advance', () => {
  expect(shown(window(0, [1, 2, 3, 4]), 4, 60, false)).toEqual([1, 2, 3, 4])
})

test('the mean covers the last slots and skips nulls', () => {
  expect(meanOfLast([9, null, 2, 4], 3)).toBe(3)
  expect(meanOfLast([], 3)).toBe(0)
})

test('the moving mean of a sawtooth is a line', () => {
  expect(movingMean([10, 0, 10, 0, 10, 0], 2)).toEqual([10, 5, 5, 5, 5, 5])
  expect(movingMean([null, null, 4, 2], 3)).toEqual([null, null, 4, 3])
})
