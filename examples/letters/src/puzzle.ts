/** A puzzle: a row of letters of which one is missing, and letters to choose from. */

export const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'

export interface Puzzle {
  /** Consecutive letters of the alphabet. */
  row: string[]
  /** Index of the missing letter in the row. */
  gap: number
  missing: string
  /** The missing letter and wrong ones, shuffled. */
  choices: string[]
}

export interface PuzzleSettings {
  /** Letters that may be missing. */
  letters: string
  /** Number of letters in the row. */
  row: number
  choices: number
}

/** Returns a random number in [0, 1). */
export type Random = () => number

const ROW = { min: 3, max: 5 }
const CHOICES = { min: 2, max: 5 }

/** Creates a puzzle. Its missing letter is not in `before`, unless all letters are. */
export function createPuzzle(settings: PuzzleSettings, before: string[], random: Random): Puzzle {
  const length = clampInt(settings.row, ROW)
  const allowed = [...new Set(settings.letters.toUpperCase())].filter((letter) => ALPHABET.includes(letter))
  const letters = allowed.length ? allowed : [...ALPHABET]
  const fresh = letters.filter((letter) => !before.includes(letter))
  const missing = pick(fresh.length ? fresh : letters, random)
  const at = ALPHABET.indexOf(missing)
  // The first letter is only missing if it is A, so that every row has a letter to start from.
  const first = Math.max(0, at - length + 1)
  const last = Math.max(first, Math.min(at - 1, ALPHABET.length - length))
  const start = first + Math.floor(random() * (last - first + 1))
  const row = [...ALPHABET.slice(start, start + length)]
  const choices = shuffled([missing, ...wrongLetters(row, clampInt(settings.choices, CHOICES) - 1, random)], random)
  return { row, gap: at - start, missing, choices }
}

/** Returns letters that are not in the row, since those are obviously wrong. */
function wrongLetters(row: string[], count: number, random: Random): string[] {
  return shuffled(
    [...ALPHABET].filter((letter) => !row.includes(letter)),
    random,
  ).slice(0, count)
}

/** Fisher-Yates shuffle. */
export function shuffled<T>(values: T[], random: Random): T[] {
  const all = [...values]
  for (let i = all.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[all[i], all[j]] = [all[j]!, all[i]!]
  }
  return all
}

export function pick<T>(values: readonly T[], random: Random): T {
  return values[Math.floor(random() * values.length)]!
}

/** Converts the value of a variable to an integer within limits. Variables may have any JSON value. */
export function clampInt(value: unknown, { min, max }: { min: number; max: number }): number {
  const number = Math.round(Number(value))
  return Number.isFinite(number) ? Math.min(max, Math.max(min, number)) : min
}
