/** Levels that players make. */
import type { Api } from './api.js'
import type { Level, LevelPage, LevelQuery, NewLevel } from './types.js'

export class Levels {
  readonly #api: Api

  constructor(api: Api) {
    this.#api = api
  }

  /** The same name and data again gives the first one's id, marked `duplicate`. */
  save(level: NewLevel): Promise<{ id: string; duplicate: boolean }> {
    const { player, name } = this.#api.who
    return this.#api.write('POST', '/v1/levels', { player, player_name: name, ...level })
  }

  /** With its data. */
  load(id: string): Promise<Level> {
    return this.#api.get(path(id))
  }

  list({ data, ...query }: LevelQuery = {}): Promise<LevelPage> {
    return this.#api.get('/v1/levels', { ...this.#api.friends(query), data: data && 1 })
  }

  /** 1 to 10, once per player; a later one replaces it. */
  rate(id: string, rating: number): Promise<{ rating: number; votes: number; changed: boolean }> {
    return this.#api.write('POST', path(id, '/rating'), { player: this.#api.who.player, rating })
  }

  /** Tells the moderators. */
  flag(id: string, reason?: string): Promise<unknown> {
    return this.#api.write('POST', path(id, '/flags'), { player: this.#api.who.player, reason })
  }
}

function path(id: string, rest = ''): string {
  return `/v1/levels/${encodeURIComponent(id)}${rest}`
}
