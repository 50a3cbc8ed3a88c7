/** Achievements of the player and of friends. */
import type { Api } from './api.js'
import type { Achievement } from './types.js'

export class Achievements {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** Grants an achievement. `granted` is false if the player already had it. */
  grant(key: string): Promise<{ granted: boolean; at: string }> {
    return this.#api.write('POST', `/v1/achievements/${encodeURIComponent(key)}/grants`, this.#api.identity)
  }

  /** Lists all achievements of the game; those of the player have `granted_at`. */
  async list(query: { friends?: string[] | 'follows' } = {}): Promise<Achievement[]> {
    const { player } = this.#api.identity
    const response = await this.#api.get<{ achievements: Achievement[] }>('/v1/achievements', {
      player,
      ...query,
    })
    return response.achievements
  }
}
