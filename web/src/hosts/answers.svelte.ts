/** Questions that are kept answered over one connection, for components to read. */
import type { Client } from '../client'
import { applyChange } from '../live/answer'
import type { Kind, QueryAnswer, QueryChange, QuerySnapshot } from '../live/protocol'
import { Watch, type Status } from '../live/watch'
import type { Question } from './questions'

/** Readings come every few seconds; nothing has to be told sooner. */
const MIN_INTERVAL_MS = 1_000
const TICK_MS = 5_000

export class Answers {
  /** The answer to each question, in their order. */
  all = $state.raw<readonly (QueryAnswer | undefined)[]>([])
  status = $state<Status>('connecting')
  /** The server's clock. */
  nowMs = $state(Date.now())

  readonly #watch: Watch<QuerySnapshot | QueryChange>
  readonly #ticker: ReturnType<typeof setInterval>
  #aheadMs = 0

  constructor(client: Client, questions: Question[], stillSignedIn: () => Promise<boolean>) {
    const asked = new URLSearchParams({ min_interval: String(MIN_INTERVAL_MS) })
    for (const question of questions) asked.append('query', JSON.stringify(question))
    this.#watch = new Watch(`${client.url('/v1/watch')}&${asked}`, {
      message: (kind, message) => this.#heard(kind, message),
      status: (status) => (this.status = status),
      refused: stillSignedIn,
    })
    this.#ticker = setInterval(() => (this.nowMs = Date.now() + this.#aheadMs), TICK_MS)
  }

  /** Until when the first of them has counted. */
  get asOf() {
    return this.all[0]?.as_of
  }

  close(): void {
    this.#watch.close()
    clearInterval(this.#ticker)
  }

  #heard(kind: Kind, message: QuerySnapshot | QueryChange): void {
    const index = Number(message.sub.slice('query'.length))
    const before = this.all[index]
    const after =
      kind === 'change' ? before && applyChange(before, message as QueryChange, null) : (message as QuerySnapshot)
    const all = [...this.all]
    all[index] = after
    this.all = all
    this.#aheadMs = Date.parse(message.as_of.time) - Date.now()
    this.nowMs = Date.parse(message.as_of.time)
  }
}
