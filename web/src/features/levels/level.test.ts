import { expect, test } from 'vitest'
import { authorName, difficultyOf, type Level } from './level'

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
