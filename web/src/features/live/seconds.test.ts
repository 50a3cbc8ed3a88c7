import { expect, test } from 'vitest'
import { lastComplete, meanOfLast, merge, windowOf, type Window } from './seconds'

const START = Date.parse('2026-11-20T11:00:00Z')

/** A window that starts `at` seconds after eleven; nothing was refused. */
function window(at: number, accepted: number[]): Window {
  const from = new Date(START + at * 1000).toISOString()
  return windowOf({ from, accepted, refused: accepted.map(() => 0) })
}

/** What is shown `now` seconds after eleven, when the server spoke at `asOf`. */
function shown(known: Window, asOf: number, now: number, live = true) {
  return lastComplete(known, START + asOf * 1000, START + now * 1000, live, 4).accepted
}

test('later seconds follow and the window moves on', () => {
  const merged = merge(window(0, [1, 2, 3]), window(3, [4, 5]), 4)
  expect(merged.accepted).toEqual([2, 3, 4, 5])
})

test('a second told again replaces what was known', () => {
  expect(merge(window(0, [1, 2, 3]), window(2, [9, 4]), 10).accepted).toEqual([1, 2, 9, 4])
})

test('seconds that nobody told of in between are quiet', () => {
  expect(merge(window(0, [1]), window(3, [4]), 10).accepted).toEqual([1, 0, 0, 4])
})

test('an old word does not move the window back', () => {
  expect(merge(window(5, [5, 6]), window(4, [4]), 3).accepted).toEqual([4, 5, 6])
})

test('the second that is still counting is not shown', () => {
  expect(shown(window(0, [1, 2, 3, 4, 1]), 4.4, 4.6)).toEqual([1, 2, 3, 4])
})

test('what was before the first word is unknown, not zero', () => {
  expect(shown(window(0, [1, 2]), 2, 2)).toEqual([null, null, 1, 2])
})

test('silence on a live stream is zero, three seconds later', () => {
  expect(shown(window(0, [1, 2, 3, 4]), 4, 9)).toEqual([3, 4, 0, 0])
})

test('a broken stream stands still', () => {
  expect(shown(window(0, [1, 2, 3, 4]), 4, 60, false)).toEqual([1, 2, 3, 4])
})

test('the mean takes the last slots and leaves out unknown ones', () => {
  expect(meanOfLast([9, null, 2, 4], 3)).toBe(3)
  expect(meanOfLast([], 3)).toBe(0)
})
