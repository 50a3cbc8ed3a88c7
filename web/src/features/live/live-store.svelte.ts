/** The stream of the Live page and its state, for components to read. */
import { StreamConnection, type Status } from '../../stream/connection'
import type { Message, MessageKind } from '../../stream/protocol'
import { lastComplete, type SecondsWindow } from './seconds'
import { INITIAL_STATE, reduce, type LiveState } from './state'

/** The queries of the page, in the order of the stream's `query0`, `query1`, ... */
const QUERIES = [
  { metric: 'events', last: '60m', step: 'minute' },
  { metric: 'events', last: '60m', step: 'all', by: ['event'], top: 40 },
  { metric: 'events', measure: 'uniques', last: '60m', step: 'all', by: ['country'], top: 8 },
]

const TICK_MS = 1_000

export class LiveStore {
  state = $state.raw<LiveState>(INITIAL_STATE)
  status = $state<Status>('connecting')
  /** The server's clock, updated every second, so that charts advance without messages. */
  nowMs = $state(Date.now())

  /** Derived on its own, so that other messages do not redraw what depends on it. */
  readonly #load = $derived(this.state.load)

  /** The last two minutes by second. The window does not advance while the stream is disconnected. */
  readonly seconds = $derived.by((): SecondsWindow | undefined => {
    const load = this.#load
    if (!load) return undefined
    const asOfMs = Date.parse(load.asOf.time)
    return lastComplete(load.seconds, asOfMs, this.nowMs, this.status === 'live')
  })

  readonly #connection: StreamConnection
  readonly #ticker: ReturnType<typeof setInterval>
  /** How far the server's clock is ahead, measured by the message with the least delay. */
  #aheadMs = -Infinity

  constructor(game: string, checkSignedIn: () => Promise<boolean>) {
    this.#connection = new StreamConnection(streamUrl(game), {
      message: (kind, message) => this.#receive(kind, message),
      status: (status) => (this.status = status),
      rejected: checkSignedIn,
    })
    this.#ticker = setInterval(() => this.#tick(), TICK_MS)
  }

  close(): void {
    this.#connection.close()
    clearInterval(this.#ticker)
  }

  #receive(kind: MessageKind, message: Message): void {
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

function streamUrl(game: string): string {
  const params = new URLSearchParams({ game, online: '1', events: '1', load: '1' })
  for (const query of QUERIES) params.append('query', JSON.stringify(query))
  return `/v1/watch?${params}`
}
