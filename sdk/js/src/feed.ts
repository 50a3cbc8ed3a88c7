/** The activities of the players that the player follows. */
import type { Api } from './api.js'
import type { FeedPage, Json } from './types.js'

export class Feed {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** Returns a page of the feed. `fair` returns the latest activity of each player, so that active players do not crowd out others. */
  list(query: { mode?: 'latest' | 'fair'; n?: number; before?: string } = {}): Promise<FeedPage> {
    return this.#api.get('/v1/feed/' + encodeURIComponent(this.#api.identity.player), query)
  }

  /** Posts an activity to the followers. */
  post(text: string, props?: Record<string, Json>): Promise<{ id: string }> {
    return this.#api.write('POST', '/v1/feed', { ...this.#api.identity, text, props })
  }

  follow(player: string): Promise<void> {
    return this.#api.write('PUT', this.#follows('/' + encodeURIComponent(player)))
  }

  unfollow(player: string): Promise<void> {
    return this.#api.write('DELETE', this.#follows('/' + encodeURIComponent(player)))
  }

  /** Returns the ids of the followed players. */
  follows(): Promise<{ follows: string[]; count: number }> {
    return this.#api.get(this.#follows(''))
  }

  #follows(rest: string): string {
    return `/v1/players/${encodeURIComponent(this.#api.identity.player)}/follows${rest}`
  }
}
