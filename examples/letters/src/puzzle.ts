/** One question: some letters in a row, one of them missing, and letters to choose from. */

export const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'

export interface Puzzle {
  /** Letters that follow each other in the alphabet. */
  row: string[]
  /** Which of them is not shown. */
  gap: number
  missing: string
  /** The missing one among others, in a mixed order. */
  choices: string[]
}

export interface Wishes {
  /** Letters that may be missing. */
  letters: string
  /** How many letters stand in the row. */
  row: number
  choices: number
}

/** A number from 0 up to, not including, 1. */
export type Random = () => number

const ROW = { min: 3, max: 5 }
const CHOICES = { min: 2, max: 5 }

/** Makes a puzzle whose missing letter is none of `before`, as long as there is another one. */
export function makePuzzle(wishes: Wishes, before: string[], random: Random): Puzzle {
  const length = within(wishes.row, ROW)
  const asked = [...new Set(wishes.letters.toUpperCase())].filter((letter) => ALPHABET.includes(letter))
  const letters = asked.length ? asked : [...ALPHABET]
  const fresh = letters.filter((letter) => !before.includes(letter))
  const missing = one(fresh.length ? fresh : letters, random)
  const at = ALPHABET.indexOf(missing)
  // The first letter of a row is never the missing one, unless it has to be: there is always one to start from.
  const first = Math.max(0, at - length + 1)
  const last = Math.max(first, Math.min(at - 1, ALPHABET.length - length))
  const start = first + Math.floor(random() * (last - first + 1))
  const row = [...ALPHABET.slice(start, start + length)]
  const choices = mixed([missing, ...wrong(row, within(wishes.choices, CHOICES) - 1, random)], random)
  return { row, gap: at - start, missing, choices }
}

/** Letters that are not in the row: what is seen there cannot be what is missing. */
function wrong(row: string[], count: number, random: Random): string[] {
  return mixed(
    [...ALPHABET].filter((letter) => !row.includes(letter)),
    random,
  ).slice(0, count)
}

/** Fisher and Yates. */
export function mixed<T>(values: T[], random: Random): T[] {
  const all = [...values]
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[all[i], all[j]] = [all[j]!, all[i]!]
  }
  return all
}

export function one<T>(values: readonly T[], random: Random): T {
  return values[Math.floor(random() * values.length)]!
}

/** What somebody typed into a variable, as a number that the game can work with. */
export function within(value: unknown, { min, max }: { min: number; max: number }): number {
  const number = Math.round(Number(value))
  return Number.isFinite(number) ? Math.min(max, Math.max(min, number)) : min
}
