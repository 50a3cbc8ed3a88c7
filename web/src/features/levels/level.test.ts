import { expect, test } from 'vitest'
import { difficultyOf, makerOf, type Level } from './level'

function check(starts: number, wins: number, quits: number, expected: string) {
  const level = { starts, wins, retries: 0, quits } as Level
  expect(difficultyOf(level).verdict).toBe(expected)
}

test('many starts, few wins and many who give up make a hard level', () => {
  check(100, 90, 5, 'Easy')
  check(100, 60, 20, 'Fair')
  check(100, 30, 30, 'Hard')
  check(100, 10, 30, 'Hard')
  check(100, 10, 60, 'Too hard?')
})

test('what hardly anybody played is not judged', () => {
  check(9, 0, 9, 'Hardly played')
  expect(difficultyOf({ starts: 0, wins: 0, retries: 0, quits: 0 } as Level).shares.map((it) => it.share)).toEqual(
    [0, 0, 0],
  )
})

test('a maker without a name is known by the id', () => {
  expect(makerOf({ player: 'bo', player_name: '' } as Level)).toBe('bo')
  expect(makerOf({ player: 'bo', player_name: 'Bo' } as Level)).toBe('Bo')
})
