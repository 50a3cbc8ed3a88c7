/**
 * Keeps the first page of a leaderboard current. The stream sends the whole page whenever it changes. A server
 * without a stream for leaderboards has to be polled.
 */
import type { Client } from '../../client'
import type { Params } from '../../router'
import { StreamConnection, type EventSourceLike } from '../../stream/connection'
import type { BoardPage } from './board'

/** The poll interval of pages that have no stream. */
export const POLL_MS = 2_000

export interface BoardStreamHandlers {
  page(page: BoardPage, time: string): void
  /** The server has no stream for leaderboards. */
  unavailable(): void
  checkSignedIn(): Promise<boolean>
}

type Message = Partial<BoardPage> & { as_of?: { time: string } }

export class BoardStream {
  readonly #connection: StreamConnection<Message>
  readonly #handlers: BoardStreamHandlers
  #hasReceived = false

  constructor(client: Client, params: Params, handlers: BoardStreamHandlers, connect?: (url: string) => EventSourceLike) {
    this.#handlers = handlers
    const streamHandlers = {
      message: (_kind: unknown, message: Message) => this.#receive(message),
      status: () => undefined,
      rejected: () => this.#onRejected(),
    }
    this.#connection = new StreamConnection<Message>(client.url('/v1/watch', params), streamHandlers, connect)
  }

  close(): void {
    this.#connection.close()
  }

  #receive(message: Message): void {
    this.#hasReceived = true
    const time = message.as_of?.time ?? new Date().toISOString()
    if (message.rows) this.#handlers.page(message as BoardPage, time)
  }

  async #onRejected(): Promise<boolean> {
    const isSignedIn = await this.#handlers.checkSignedIn()
    if (isSignedIn && !this.#hasReceived) this.#handlers.unavailable()
    return isSignedIn && this.#hasReceived
  }
}
