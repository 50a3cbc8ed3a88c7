/** One run: some puzzles after each other, and the stars they bring. Nothing can be lost. */
import { makePuzzle, type Puzzle, type Random, type Wishes } from './puzzle'

/** Stars of a puzzle by the number of wrong choices before the right one: everybody gets at least one. */
const STARS = [3, 2, 1]

/** A run is quick by what it stays below this; that decides between equal stars. */
const QUICK_S = 600

export interface Chosen {
  right: boolean
  /** What this choice brought. */
  stars: number
  /** From the question to the choice. */
  seconds: number
  tries: number
}

export class Run {
  readonly rounds: number
  readonly #random: Random
  readonly #startedMs: number
  #puzzle: Puzzle | undefined
  #askedMs = 0
  #tries = 0
  #won: { letter: string; stars: number }[] = []

  constructor(rounds: number, startedMs: number, random: Random) {
    this.rounds = rounds
    this.#startedMs = startedMs
    this.#random = random
  }

  /** The next puzzle; none when the run is over. */
  next(wishes: Wishes, nowMs: number): Puzzle | undefined {
    if (this.over) return undefined
    const before = this.#won.map(({ letter }) => letter)
    this.#puzzle = makePuzzle(wishes, before, this.#random)
    this.#askedMs = nowMs
    this.#tries = 0
    return this.#puzzle
  }

  choose(letter: string, nowMs: number): Chosen {
    const right = letter === this.#puzzle?.missing
    const stars = right ? (STARS[this.#tries] ?? 1) : 0
    this.#tries++
    if (right) this.#won.push({ letter, stars })
    return { right, stars, seconds: (nowMs - this.#askedMs) / 1000, tries: this.#tries }
  }

  get over(): boolean {
    return this.#won.length >= this.rounds
  }

  /** Stars of each puzzle that was solved. */
  get earned(): number[] {
    return this.#won.map(({ stars }) => stars)
  }

  get letters(): string[] {
    return this.#won.map(({ letter }) => letter)
  }

  get stars(): number {
    return this.earned.reduce((sum, stars) => sum + stars, 0)
  }

  get perfect(): boolean {
    return this.over && this.stars === this.rounds * STARS[0]!
  }

  /** Whole seconds that this run was quicker than ten minutes. */
  quickness(nowMs: number): number {
    return Math.max(0, Math.round(QUICK_S - (nowMs - this.#startedMs) / 1000))
  }
}
