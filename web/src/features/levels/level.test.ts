import { expect, test } from 'vitest'
import { authorName, difficultyOf, sortedLevels, type Level } from './level'

function check(starts: number, wins: number, quits: number, expected: string) {
  const level = { starts, wins, retries: 0, quits } as Level
  expect(difficultyOf(level).verdict).toBe(expected)
}

test('few wins and many quits make a level hard', () => {
  check(100, 90, 5, 'Easy')
  check(100, 60, 20, 'Medium')
  check(100, 30, 30, 'Hard')
  check(100, 10, 30, 'Hard')
  check(100, 10, 60, 'Too hard?')
})

test('a level with few starts has no difficulty', () => {
  check(9, 0, 9, 'Not enough plays')
  expect(difficultyOf({ starts: 0, wins: 0, retries: 0, quits: 0 } as Level).shares.map((it) => it.share)).toEqual(
    [0, 0, 0],
  )
})

test('an author without a name is shown by id', () => {
  expect(authorName({ player: 'bo', player_name: '' } as Level)).toBe('bo')
  expect(authorName({ player: 'bo', player_name: 'Bo' } as Level)).toBe('Bo')
})

const level = (starts: number, wins: number, retries: number, quits: number) => ({ starts, wins, retries, quits }) as Level

test('levels are sorted by the share of starts, in both directions', () => {
  const one = { ...level(10, 5, 0, 1), name: 'b' }
  const other = { ...level(100, 20, 0, 40), name: 'a' }
  const never = { ...level(0, 0, 0, 0), name: 'c' }
  const names = (sort: string) => sortedLevels([one, other, never], sort).map(({ name }) => name).join('')
  expect([names('-starts'), names('-wins'), names('quits'), names('name')]).toEqual(['abc', 'bac', 'cba', 'abc'])
  expect([names(''), names('constructor')]).toEqual(['bac', 'bac'])
})
