/** Questions that are kept answered over one connection, for components to read. */
import type { Client } from '../../client'
import { failureOf, NOTHING_HEARD, withQuery } from '../../stream/answer'
import type { Failure, Kind, QueryChange, QuerySnapshot } from '../../stream/protocol'
import { Watch, type Status } from '../../stream/watch'
import type { Question } from './questions'

type Message = QuerySnapshot | QueryChange | Failure

/** Readings come every few seconds; nothing has to be told sooner. */
const MIN_INTERVAL_MS = 1_000
const TICK_MS = 5_000

export class Answers {
  #heard = $state.raw(NOTHING_HEARD)
  status = $state<Status>('connecting')
  /** The server's clock. */
  nowMs = $state(Date.now())

  readonly #watch: Watch<Message>
  readonly #ticker: ReturnType<typeof setInterval>
  #aheadMs = 0

  constructor(client: Client, questions: Question[], stillSignedIn: () => Promise<boolean>) {
    const asked = new URLSearchParams({ min_interval: String(MIN_INTERVAL_MS) })
    for (const question of questions) asked.append('query', JSON.stringify(question))
    this.#watch = new Watch(`${client.url('/v1/watch')}&${asked}`, {
      message: (kind, message) => this.#hear(kind, message),
      status: (status) => (this.status = status),
      refused: stillSignedIn,
    })
    this.#ticker = setInterval(() => (this.nowMs = Date.now() + this.#aheadMs), TICK_MS)
  }

  /** The last answer to each question, in their order. */
  get all() {
    return this.#heard.queries
  }

  /** Why one of them is not newer than it is. */
  get failure() {
    return failureOf(this.#heard)
  }

  /** Until when the first of them has counted. */
  get asOf() {
    return this.all[0]?.as_of
  }

  close(): void {
    this.#watch.close()
    clearInterval(this.#ticker)
  }

  #hear(kind: Kind, message: Message): void {
    // What a reading does not tell is unknown.
    this.#heard = withQuery(this.#heard, kind, message, null)
    this.#aheadMs = Date.parse(message.as_of.time) - Date.now()
    this.nowMs = Date.parse(message.as_of.time)
  }
}
