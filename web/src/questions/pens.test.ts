import { expect, test } from 'vitest'
import { pensOf } from './pens'

const of = (name: string) => ({ id: name, letter: 'A', isOther: name === '(other)', key: { country: name } })

test('up to seven values have different colours and dashes, and the rest is grey', () => {
  const pens = [...pensOf(['FR', 'DE', 'US', 'BR', 'JP', 'GB', 'IN', '(other)'].map(of)).values()]
  expect(new Set(pens.map(({ color }) => color)).size).toBe(8)
  expect(new Set(pens.slice(0, 7).map(({ dash }) => dash.join())).size).toBe(7)
  expect(pens[7]?.color).toBe('series-other')
})

test('a value keeps its colour when a filter leaves it alone', () => {
  const alone = pensOf([of('IN')]).get('IN')
  expect(pensOf([of('IN'), of('(other)')]).get('IN')).toEqual(alone)
  expect(pensOf([of('IN')]).get('IN')).toEqual(alone)
})

test('series without a breakdown are coloured by their letter', () => {
  const pens = pensOf(['A', 'B', 'C'].map((letter) => ({ id: letter, letter, isOther: false, key: {} })))
  expect([...pens.values()].map(({ color }) => color)).toEqual(['series-1', 'series-2', 'series-3'])
})
