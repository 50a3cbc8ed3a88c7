/**
 * Follows a leaf of a board: the first one by the stream, which sends it whole when it is another. Where the server has
 * no stream for it, it has to be asked.
 */
import type { Params } from '../../router'
import type { Client } from '../../client'
import { Watch, type Source } from '../../stream/watch'
import type { Leaf } from './board'

/** How often a leaf is read that has no stream. */
export const POLL_MS = 2_000

export interface LeafEvents {
  leaf(leaf: Leaf, time: string): void
  /** The server has no stream for boards. */
  alone(): void
  stillSignedIn(): Promise<boolean>
}

type Message = Partial<Leaf> & { as_of?: { time: string } }

export class LeafWatch {
  readonly #watch: Watch<Message>
  readonly #events: LeafEvents
  #heard = false

  constructor(client: Client, params: Params, events: LeafEvents, connect?: (url: string) => Source) {
    this.#events = events
    const heard = {
      message: (_kind: unknown, message: Message) => this.#message(message),
      status: () => undefined,
      refused: () => this.#refused(),
    }
    this.#watch = new Watch<Message>(client.url('/v1/watch', params), heard, connect)
  }

  close(): void {
    this.#watch.close()
  }

  #message(message: Message): void {
    this.#heard = true
    const time = message.as_of?.time ?? new Date().toISOString()
    if (message.rows) this.#events.leaf(message as Leaf, time)
  }

  async #refused(): Promise<boolean> {
    const signedIn = await this.#events.stillSignedIn()
    if (signedIn && !this.#heard) this.#events.alone()
    return signedIn && this.#heard
  }
}
