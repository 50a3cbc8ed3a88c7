/**
 * What the game says to its server, and hears from it. Without a server the game is the same, alone.
 *
 * The page's query may name another one: `?key=pm_pk_...&url=https://...`; otherwise `config.json` beside
 * the page says which.
 */
import { type Details, Playmeter, type ScoreRow } from 'playmeter'
import { sha256 } from 'playmeter/sha256'
import { ALPHABET } from './puzzle'

/** The variables of the game, and what they are until the server says otherwise. */
export const DEFAULTS = {
  /** Puzzles in a run. */
  rounds: 6,
  /** Letters to choose from, 2 to 5. */
  choices: 3,
  /** Letters in the row, 3 to 5. */
  row: 4,
  /** Which letters may be missing. */
  letters: ALPHABET as string,
  /** How fast the voice speaks: 1 is its own speed. */
  speech_rate: 0.85,
  /** Seconds until the right letter begins to wink. */
  hint_s: 10,
  /** The colour of the sky, 0 to 360. */
  hue: 225,
}
export type Vars = typeof DEFAULTS
type Client = Playmeter<Vars>

const BOARD = 'stars'
const TOP = 5

export class Line {
  readonly #client: Promise<Client | undefined>
  #vars: Vars = DEFAULTS

  constructor(name: string) {
    this.#client = connect(name).catch(() => undefined)
  }

  /** The event happens now, even if the connection takes a moment longer. */
  track(event: string, details: Details = {}): void {
    const ts = Date.now()
    void this.#client.then((client) => client?.track(event, { ts, ...details }))
  }

  get vars(): Vars {
    return this.#vars
  }

  /** Calls now, and whenever any variable changes. */
  watch(changed: (vars: Vars) => void): void {
    changed(this.#vars)
    void this.#client.then((client) => {
      for (const name of Object.keys(DEFAULTS) as (keyof Vars)[]) {
        client?.vars.watch(name, () => changed((this.#vars = client.vars.all())))
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

  /** The best, and where the player stands; nothing when there is no server, or it does not answer. */
  async standing(): Promise<ScoreRow[]> {
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

  /** Whether the player has it only since now. */
  async grant(key: string): Promise<boolean> {
    const client = await this.#client
    const grant = await client?.achievements.grant(key).catch(() => undefined)
    return grant?.granted ?? false
  }
}

async function connect(name: string): Promise<Client | undefined> {
  const asked = new URLSearchParams(location.search)
  let url = asked.get('url') ?? ''
  let key = asked.get('key')
  if (!key) {
    const answer = await fetch('config.json')
    const config = (await answer.json()) as { url?: string; public_key: string }
    url = config.url ?? ''
    key = config.public_key
  }
  return new Playmeter<Vars>({
    url,
    key,
    name,
    platform: 'web',
    source: asked.get('source') ?? 'demo',
    sha256,
    defaults: DEFAULTS,
  })
}
