/** Query results that are kept current over one connection, for components to read. */
import type { Client } from '../../client'
import { StreamConnection, type Status } from '../../stream/connection'
import type { FailureMessage, MessageKind, QueryChange, QuerySnapshot } from '../../stream/protocol'
import { applyQueryMessage, firstFailure, NO_QUERIES } from '../../stream/query-results'
import type { HostQuery } from './queries'

type Message = QuerySnapshot | QueryChange | FailureMessage

/** Agents report every few seconds: more frequent messages would carry nothing new. */
const MIN_INTERVAL_MS = 1_000
const TICK_MS = 5_000

export class LiveQueries {
  #state = $state.raw(NO_QUERIES)
  status = $state<Status>('connecting')
  /** The server's clock. */
  nowMs = $state(Date.now())

  readonly #connection: StreamConnection<Message>
  readonly #ticker: ReturnType<typeof setInterval>
  #aheadMs = 0

  constructor(client: Client, queries: HostQuery[], checkSignedIn: () => Promise<boolean>) {
    const params = new URLSearchParams({ min_interval: String(MIN_INTERVAL_MS) })
    for (const query of queries) params.append('query', JSON.stringify(query))
    this.#connection = new StreamConnection(`${client.url('/v1/watch')}&${params}`, {
      message: (kind, message) => this.#receive(kind, message),
      status: (status) => (this.status = status),
      rejected: checkSignedIn,
    })
    this.#ticker = setInterval(() => (this.nowMs = Date.now() + this.#aheadMs), TICK_MS)
  }

  /** The last result of each query, in the order of the queries. */
  get results() {
    return this.#state.queries
  }

  /** The reason why a result could not be updated. */
  get failure() {
    return firstFailure(this.#state)
  }

  /** The log position and time of the first result. */
  get asOf() {
    return this.results[0]?.as_of
  }

  close(): void {
    this.#connection.close()
    clearInterval(this.#ticker)
  }

  #receive(kind: MessageKind, message: Message): void {
    // A value that is missing from a reading is unknown, not zero.
    this.#state = applyQueryMessage(this.#state, kind, message, null)
    this.#aheadMs = Date.parse(message.as_of.time) - Date.now()
    this.nowMs = Date.parse(message.as_of.time)
  }
}
