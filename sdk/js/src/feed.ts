/** What those the player follows have done. */
import type { Api } from './api.js'
import type { FeedPage, Json } from './types.js'

export class Feed {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** `fair`: the last of each, so that a rare poster is not buried by a busy one. */
  list(query: { mode?: 'latest' | 'fair'; n?: number; before?: string } = {}): Promise<FeedPage> {
    return this.#api.get('/v1/feed/' + encodeURIComponent(this.#api.who.player), query)
  }

  /** Tells the followers something. */
  post(text: string, props?: Record<string, Json>): Promise<{ id: string }> {
    return this.#api.write('POST', '/v1/feed', { ...this.#api.who, text, props })
  }

  follow(player: string): Promise<void> {
    return this.#api.write('PUT', this.#follows('/' + encodeURIComponent(player)))
  }

  unfollow(player: string): Promise<void> {
    return this.#api.write('DELETE', this.#follows('/' + encodeURIComponent(player)))
  }

  follows(): Promise<{ follows: string[]; count: number }> {
    return this.#api.get(this.#follows(''))
  }

  #follows(rest: string): string {
    return `/v1/players/${encodeURIComponent(this.#api.who.player)}/follows${rest}`
  }
}
