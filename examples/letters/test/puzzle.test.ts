import { expect, test } from 'vitest'
import { ALPHABET, createPuzzle } from '../src/puzzle'
import { seededRandom } from './random'

test('every puzzle is part of the alphabet with one gap and one right choice', () => {
  const random = seededRandom(7)
  for (let n = 0; n < 5_000; n++) {
    const settings = { letters: ALPHABET, row: 3 + (n % 3), choices: 2 + (n % 4) }
    const { row, gap, missing, choices } = createPuzzle(settings, [], random)
    expect(ALPHABET).toContain(row.join(''))
    expect(row).toHaveLength(settings.row)
    expect(row[gap]).toBe(missing)
    expect(new Set(choices).size).toBe(settings.choices)
    expect(choices.filter((letter) => row.includes(letter))).toEqual([missing])
  }
})

test('the first letter of a row is shown unless it is A', () => {
  const random = seededRandom(11)
  for (let n = 0; n < 2_000; n++) {
    const { row, gap } = createPuzzle({ letters: ALPHABET, row: 4, choices: 3 }, [], random)
    expect(gap > 0 || row[0] === 'A').toBe(true)
  }
})

test('only allowed letters are missing, and none repeats before all were used', () => {
  const random = seededRandom(3)
  const before: string[] = []
  for (let n = 0; n < 3; n++)
    before.push(createPuzzle({ letters: 'xyz', row: 4, choices: 3 }, before, random).missing)
  expect(before.sort()).toEqual(['X', 'Y', 'Z'])
})

test('invalid settings still give a puzzle', () => {
  const puzzle = createPuzzle({ letters: '12!', row: 99, choices: Number.NaN }, [], seededRandom(5))
  expect([puzzle.row.length, puzzle.choices.length]).toEqual([5, 2])
})
