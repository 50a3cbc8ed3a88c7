/** The Live page's connection and what it has heard, for components to read. */
import type { Kind, Message } from '../../stream/protocol'
import { lastComplete, type Window } from './seconds'
import { NOTHING_YET, reduce, type LiveState } from './state'
import { Watch, type Status } from '../../stream/watch'

/** What the page asks to be kept current, in the order of the stream's `query0`, `query1`, ... */
const QUERIES = [
  { metric: 'events', last: '60m', step: 'minute' },
  { metric: 'events', last: '60m', step: 'all', by: ['event'], top: 8 },
  { metric: 'events', measure: 'uniques', last: '60m', step: 'all', by: ['country'], top: 8 },
]

const TICK_MS = 1_000

export class Live {
  state = $state.raw<LiveState>(NOTHING_YET)
  status = $state<Status>('connecting')
  /** The server's clock, by the second. Charts move on with it when nothing is said. */
  nowMs = $state(Date.now())

  /** A message about something else leaves it as it is, so that nothing is drawn anew for it. */
  readonly #load = $derived(this.state.load)

  /** The last two minutes, second by second; while the stream is broken it stands still. */
  readonly seconds = $derived.by((): Window | undefined => {
    const load = this.#load
    if (!load) return undefined
    const asOfMs = Date.parse(load.asOf.time)
    return lastComplete(load.seconds, asOfMs, this.nowMs, this.status === 'live')
  })

  readonly #watch: Watch
  readonly #ticker: ReturnType<typeof setInterval>
  /** How far the server's clock is ahead: of all messages, the one that was under way least. */
  #aheadMs = -Infinity

  constructor(game: string, stillSignedIn: () => Promise<boolean>) {
    this.#watch = new Watch(watchUrl(game), {
      message: (kind, message) => this.#heard(kind, message),
      status: (status) => (this.status = status),
      refused: stillSignedIn,
    })
    this.#ticker = setInterval(() => this.#tick(), TICK_MS)
  }


  close(): void {
    this.#watch.close()
    clearInterval(this.#ticker)
  }

  #heard(kind: Kind, message: Message): void {
    this.state = reduce(this.state, kind, message)
    const aheadMs = Date.parse(message.as_of.time) - Date.now()
    if (aheadMs <= this.#aheadMs) return
    this.#aheadMs = aheadMs
    this.#tick()
  }

  #tick(): void {
    this.nowMs = Date.now() + (Number.isFinite(this.#aheadMs) ? this.#aheadMs : 0)
  }
}

function watchUrl(game: string): string {
  const asked = new URLSearchParams({ game, online: '1', events: '1', load: '1' })
  for (const query of QUERIES) asked.append('query', JSON.stringify(query))
  return `/v1/watch?${asked}`
}
