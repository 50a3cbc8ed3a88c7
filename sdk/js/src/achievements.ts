/** Achievements of the player, beside those of friends. */
import type { Api } from './api.js'
import type { Achievement } from './types.js'

export class Achievements {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** `granted` is false when the player had it already. */
  grant(key: string): Promise<{ granted: boolean; at: string }> {
    return this.#api.write('POST', `/v1/achievements/${encodeURIComponent(key)}/grants`, this.#api.who)
  }

  /** The whole catalogue; what the player has carries `granted_at`. */
  async list(query: { friends?: string[] | 'follows' } = {}): Promise<Achievement[]> {
    const { player } = this.#api.who
    const answer = await this.#api.get<{ achievements: Achievement[] }>('/v1/achievements', {
      player,
      ...query,
    })
    return answer.achievements
  }
}
