/** Leaderboards. */
import type { Api } from './api.js'
import type { Saved, ScoreDetails, ScorePage, ScoreQuery } from './types.js'

export class Board {
  readonly #api: Api
  readonly #path: string

  constructor(api: Api, table: string) {
    this.#api = api
    this.#path = `/v1/boards/${encodeURIComponent(table)}/scores`
  }

  /** Submits a score, signed by the player's session. It enters every window of the leaderboard. */
  submit(score: number, details?: ScoreDetails): Promise<Saved> {
    return this.#api.write('POST', this.#path, { ...this.#api.identity, ...details, score })
  }

  /** Returns a page of the leaderboard. */
  list(query: ScoreQuery = {}): Promise<ScorePage> {
    return this.#api.get(this.#path, this.#api.friends(query))
  }

  /** Submits a score and returns the page that contains it; its row is marked `submitted`. */
  saveAndList(score: number, details?: ScoreDetails, query: ScoreQuery = {}): Promise<Saved & ScorePage> {
    const value = { ...this.#api.identity, ...details, score }
    return this.#api.write('POST', this.#path + ':saveAndList', value, this.#api.friends(query))
  }
}
