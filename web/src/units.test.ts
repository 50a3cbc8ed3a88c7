import { expect, test } from 'vitest'
import { bytes, number, perSecond } from './units'

test('bytes are scaled to the unit that leaves three digits', () => {
  const texts = [0, 0.4, 999, 1_000, 1_536, 999_900, 3_072_000_000, 2.5e16].map(bytes)
  expect(texts).toEqual(['0 B', '0 B', '999 B', '1 kB', '1.54 kB', '1 MB', '3.07 GB', '25 PB'])
})

test('numbers have about three significant digits', () => {
  expect([0.123, 9.876, 12.34, 331.6, 1_207_558.9].map(number)).toEqual(['0.12', '9.88', '12.3', '332', '1,207,559'])
  expect(perSecond(0.05)).toBe('0.05/s')
})
