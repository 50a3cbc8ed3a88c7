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

  /** Saves a score under the player's signature: one call fills every window. */
  submit(score: number, details?: ScoreDetails): Promise<Saved> {
    return this.#api.write('POST', this.#path, { ...this.#api.who, ...details, score })
  }

  list(query: ScoreQuery = {}): Promise<ScorePage> {
    return this.#api.get(this.#path, this.#api.friends(query))
  }

  /** Saves, and answers with the page that the score is on; its row is marked `submitted`. */
  saveAndList(score: number, details?: ScoreDetails, query: ScoreQuery = {}): Promise<Saved & ScorePage> {
    const value = { ...this.#api.who, ...details, score }
    return this.#api.write('POST', this.#path + ':saveAndList', value, this.#api.friends(query))
  }
}
