import { expect, test } from 'vitest'
import { duration, loss, ms } from './flow-format'

test('a loss above zero is never shown as 0%', () => {
  expect([0, 0.000001, 0.0213, 0.5, 1].map(loss)).toEqual(['0%', '<0.01%', '2.13%', '50%', '100%'])
})

test('milliseconds have three significant digits and an unknown value is a dash', () => {
  expect([0, 1.2345, 48.26, 1234.5].map(ms)).toEqual(['0 ms', '1.23 ms', '48.3 ms', '1,230 ms'])
  expect([null, undefined].map(ms)).toEqual(['–', '–'])
})

test('a duration is shown in its two largest units', () => {
  expect([0, 59.9, 65, 3600, 93_784].map(duration)).toEqual(['0 s', '59 s', '1 min 05 s', '1 h 00 min', '26 h 03 min'])
})
