import { expect, test } from 'vitest'
import { BANDS, bucketFrom, BUCKETS, distributionOf, ratingOf } from './mos'

test('a score has the rating of the nearest threshold at or below it', () => {
  const scores = [4.5, 4.3, 4.29, 4, 3.99, 3.6, 3.1, 3.09, 1, 0]
  expect(scores.map(ratingOf).join(' ')).toBe('excellent excellent good good fair fair poor bad bad bad')
})

test('every rating starts at a bucket boundary', () => {
  const bounds = Array.from({ length: BUCKETS }, (_, i) => bucketFrom(i))
  for (const { from } of BANDS) expect(bounds).toContain(from)
  expect(bounds.at(-1)).toBe(4.5)
})

test('each flow is counted under one rating', () => {
  const buckets = Array.from({ length: BUCKETS }, (_, i) => i)
  const distribution = distributionOf(buckets)
  expect(distribution.reduce((sum, { flows }) => sum + flows, 0)).toBe((BUCKETS * (BUCKETS - 1)) / 2)
  expect(distribution.map(({ range }) => range)).toEqual(['from 4.3', '4.0 to 4.3', '3.6 to 4.0', '3.1 to 3.6', 'below 3.1'])
  expect(distributionOf([]).map(({ share }) => share)).toEqual([0, 0, 0, 0, 0])
})
