/**
 * The connection to the Playmeter server. Without a server the game works offline.
 *
 * The server is configured by the page's query, `?key=pm_pk_...&url=https://...`, or by `config.json` next to
 * the page.
 */
import { type Details, Playmeter, type ScoreRow } from 'playmeter'
import { sha256 } from 'playmeter/sha256'
import { ALPHABET } from './puzzle'

/** The variables of the game with their defaults. */
export const DEFAULTS = {
  /** Puzzles in a run. */
  rounds: 6,
  /** Letters to choose from, 2 to 5. */
  choices: 3,
  /** Letters in the row, 3 to 5. */
  row: 4,
  /** Which letters may be missing. */
  letters: ALPHABET as string,
  /** Speed of the voice; 1 is its normal speed. */
  speech_rate: 0.85,
  /** Seconds until the right letter is highlighted. */
  hint_s: 10,
  /** The colour of the sky, 0 to 360. */
  hue: 225,
}
export type Vars = typeof DEFAULTS
type Client = Playmeter<Vars>

const BOARD = 'stars'
const TOP = 5

export class Backend {
  readonly #client: Promise<Client | undefined>
  #vars: Vars = DEFAULTS

  constructor(name: string) {
    this.#client = connect(name).catch(() => undefined)
  }

  /** Tracks an event with the current time, even if the connection is established later. */
  track(event: string, details: Details = {}): void {
    const ts = Date.now()
    void this.#client.then((client) => client?.track(event, { ts, ...details }))
  }

  get vars(): Vars {
    return this.#vars
  }

  /** Calls `onChange` now and whenever a variable changes. */
  watch(onChange: (vars: Vars) => void): void {
    onChange(this.#vars)
    void this.#client.then((client) => {
      for (const name of Object.keys(DEFAULTS) as (keyof Vars)[]) {
        client?.vars.watch(name, () => onChange((this.#vars = client.vars.all())))
      }
    })
  }

  rename(name: string): void {
    void this.#client.then((client) => client?.identify(client.player, name))
  }

  async submit(stars: number, quickness: number): Promise<void> {
    const client = await this.#client
    await client?.board(BOARD).submit(stars, { subscore: quickness }).catch(() => undefined)
  }

  /** Returns the top scores and the player's own; empty without a server or if the request fails. */
  async topScores(): Promise<ScoreRow[]> {
    const client = await this.#client
    if (!client) return []
    const board = client.board(BOARD)
    const { player } = client
    try {
      const { rows } = await board.list({ per_page: TOP })
      const own = rows.some((row) => row.player === player) ? [] : (await board.list({ player, per_page: 1 })).rows
      return [...rows, ...own].map((row) => ({ ...row, submitted: row.player === player }))
    } catch {
      return []
    }
  }

  /** Grants an achievement; returns true if the player did not have it before. */
  async grant(key: string): Promise<boolean> {
    const client = await this.#client
    const grant = await client?.achievements.grant(key).catch(() => undefined)
    return grant?.granted ?? false
  }
}

async function connect(name: string): Promise<Client | undefined> {
  const params = new URLSearchParams(location.search)
  let url = params.get('url') ?? ''
  let key = params.get('key')
  if (!key) {
    const response = await fetch('config.json')
    const config = (await response.json()) as { url?: string; public_key: string }
    url = config.url ?? ''
    key = config.public_key
  }
  return new Playmeter<Vars>({
    url,
    key,
    name,
    platform: 'web',
    source: params.get('source') ?? 'demo',
    sha256,
    defaults: DEFAULTS,
  })
}
