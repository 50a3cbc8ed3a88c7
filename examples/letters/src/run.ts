/** A run: a series of puzzles and the stars earned. A run cannot be lost. */
import { createPuzzle, type Puzzle, type Random, type PuzzleSettings } from './puzzle'

/** Stars of a puzzle by the number of wrong choices before the right one; at least one. */
const STARS = [3, 2, 1]

/** The quickness of a run is the time it stays below this; it breaks ties between equal stars. */
const QUICK_S = 600

export interface ChoiceResult {
  right: boolean
  /** Stars earned by this choice. */
  stars: number
  /** Time from the puzzle to the choice. */
  seconds: number
  tries: number
}

export class Run {
  readonly rounds: number
  readonly #random: Random
  readonly #startedMs: number
  #puzzle: Puzzle | undefined
  #shownMs = 0
  #tries = 0
  #solved: { letter: string; stars: number }[] = []

  constructor(rounds: number, startedMs: number, random: Random) {
    this.rounds = rounds
    this.#startedMs = startedMs
    this.#random = random
  }

  /** Returns the next puzzle; undefined when the run is over. */
  next(settings: PuzzleSettings, nowMs: number): Puzzle | undefined {
    if (this.over) return undefined
    const before = this.#solved.map(({ letter }) => letter)
    this.#puzzle = createPuzzle(settings, before, this.#random)
    this.#shownMs = nowMs
    this.#tries = 0
    return this.#puzzle
  }

  choose(letter: string, nowMs: number): ChoiceResult {
    const right = letter === this.#puzzle?.missing
    const stars = right ? (STARS[this.#tries] ?? 1) : 0
    this.#tries++
    if (right) this.#solved.push({ letter, stars })
    return { right, stars, seconds: (nowMs - this.#shownMs) / 1000, tries: this.#tries }
  }

  get over(): boolean {
    return this.#solved.length >= this.rounds
  }

  /** Stars of each solved puzzle. */
  get earned(): number[] {
    return this.#solved.map(({ stars }) => stars)
  }

  get letters(): string[] {
    return this.#solved.map(({ letter }) => letter)
  }

  get stars(): number {
    return this.earned.reduce((sum, stars) => sum + stars, 0)
  }

  get perfect(): boolean {
    return this.over && this.stars === this.rounds * STARS[0]!
  }

  /** Returns how many seconds the run is below ten minutes, rounded. */
  quickness(nowMs: number): number {
    return Math.max(0, Math.round(QUICK_S - (nowMs - this.#startedMs) / 1000))
  }
}
