import { expect, test } from 'vitest'
import { ALPHABET, makePuzzle } from '../src/puzzle'
import { dice } from './dice'

test('every puzzle is a piece of the alphabet with one gap, and one choice that fits', () => {
  const random = dice(7)
  for (let n = 0; n < 5_000; n++) {
    const wishes = { letters: ALPHABET, row: 3 + (n % 3), choices: 2 + (n % 4) }
    const { row, gap, missing, choices } = makePuzzle(wishes, [], random)
    expect(ALPHABET).toContain(row.join(''))
    expect(row).toHaveLength(wishes.row)
    expect(row[gap]).toBe(missing)
    expect(new Set(choices).size).toBe(wishes.choices)
    expect(choices.filter((letter) => row.includes(letter))).toEqual([missing])
  }
})

test('a row begins with a letter that is there, unless it begins with A', () => {
  const random = dice(11)
  for (let n = 0; n < 2_000; n++) {
    const { row, gap } = makePuzzle({ letters: ALPHABET, row: 4, choices: 3 }, [], random)
    expect(gap > 0 || row[0] === 'A').toBe(true)
  }
})

test('only the letters of the wish are missing, and none twice before all were', () => {
  const random = dice(3)
  const before: string[] = []
  for (let n = 0; n < 3; n++)
    before.push(makePuzzle({ letters: 'xyz', row: 4, choices: 3 }, before, random).missing)
  expect(before.sort()).toEqual(['X', 'Y', 'Z'])
})

test('wishes that make no sense make a puzzle all the same', () => {
  const puzzle = makePuzzle({ letters: '12!', row: 99, choices: Number.NaN }, [], dice(5))
  expect([puzzle.row.length, puzzle.choices.length]).toEqual([5, 2])
})
