/** Player levels. */
import type { Api } from './api.js'
import type { Level, LevelPage, LevelQuery, NewLevel } from './types.js'

export class Levels {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** Saves a level. The same name and data again returns the id of the existing level, with `duplicate` set. */
  save(level: NewLevel): Promise<{ id: string; duplicate: boolean }> {
    const { player, name } = this.#api.identity
    return this.#api.write('POST', '/v1/levels', { player, player_name: name, ...level })
  }

  /** Returns a level with its data. */
  load(id: string): Promise<Level> {
    return this.#api.get(path(id))
  }

  /** Returns a page of levels. */
  list({ data, ...query }: LevelQuery = {}): Promise<LevelPage> {
    return this.#api.get('/v1/levels', { ...this.#api.friends(query), data: data && 1 })
  }

  /** Rates a level from 1 to 10. A later rating of the same player replaces the earlier one. */
  rate(id: string, rating: number): Promise<{ rating: number; votes: number; changed: boolean }> {
    return this.#api.write('POST', path(id, '/rating'), { player: this.#api.identity.player, rating })
  }

  /** Flags a level for the moderators. */
  flag(id: string, reason?: string): Promise<unknown> {
    return this.#api.write('POST', path(id, '/flags'), { player: this.#api.identity.player, reason })
  }
}

function path(id: string, rest = ''): string {
  return `/v1/levels/${encodeURIComponent(id)}${rest}`
}
