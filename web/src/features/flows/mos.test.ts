import { expect, test } from 'vitest'
import { BANDS, spreadOf, TENTHS, tenthFrom, wordOf } from './mos'

test('a score has the word that begins at or below it', () => {
  const scores = [4.5, 4.3, 4.29, 4, 3.99, 3.6, 3.1, 3.09, 1, 0]
  expect(scores.map(wordOf).join(' ')).toBe('excellent excellent good good fair fair poor bad bad bad')
})

test('every word begins at a tenth, so that the spread can be told by words', () => {
  const tenths = Array.from({ length: TENTHS }, (_, i) => tenthFrom(i))
  for (const { from } of BANDS) expect(tenths).toContain(from)
  expect(tenths.at(-1)).toBe(4.5)
})

test('each flow is counted under one word', () => {
  const tenths = Array.from({ length: TENTHS }, (_, i) => i)
  const spread = spreadOf(tenths)
  expect(spread.reduce((sum, { flows }) => sum + flows, 0)).toBe((TENTHS * (TENTHS - 1)) / 2)
  expect(spread.map(({ range }) => range)).toEqual(['from 4.3', '4.0 to 4.3', '3.6 to 4.0', '3.1 to 3.6', 'below 3.1'])
  expect(spreadOf([]).map(({ share }) => share)).toEqual([0, 0, 0, 0, 0])
})
