/**
 * A connection to `GET /v1/watch` that reconnects by itself.
 *
 * The browser resumes a broken stream (`Last-Event-ID`). This class adds what the browser does not do:
 * it distinguishes an expired session from an unreachable server, reconnects after an HTTP error, and
 * detects a connection that is open but dead.
 */
import { MESSAGE_KINDS, type Message, type MessageKind } from './protocol'

export type Status = 'connecting' | 'live' | 'reconnecting'

export interface StreamHandlers<M = Message> {
  message(kind: MessageKind, message: M): void
  status(status: Status): void
  /** Called when the server rejects the stream. Returns false if reconnecting is pointless, as when signed out. */
  rejected(): Promise<boolean>
}

/** The part of the browser's `EventSource` that is used. */
export type EventSourceLike = Pick<EventSource, 'readyState' | 'close' | 'addEventListener'>

const CLOSED = 2

/** The server sends a heartbeat every 15 s; a connection that misses three is dead. */
const HEARTBEAT_TIMEOUT_MS = 45_000

const RETRY_MS_FIRST = 1_000
const RETRY_MS_MAX = 30_000

export class StreamConnection<M = Message> {
  readonly #url: string
  readonly #handlers: StreamHandlers<M>
  readonly #connect: (url: string) => EventSourceLike
  #source: EventSourceLike | undefined
  #retryTimer: ReturnType<typeof setTimeout> | undefined
  #heartbeatTimer: ReturnType<typeof setTimeout> | undefined
  #retryMs = RETRY_MS_FIRST
  #isClosed = false

  constructor(
    url: string,
    handlers: StreamHandlers<M>,
    connect: (url: string) => EventSourceLike = (url) => new EventSource(url),
  ) {
    this.#url = url
    this.#handlers = handlers
    this.#connect = connect
    handlers.status('connecting')
    this.#open()
  }

  /** Closes the connection. No handler is called after this. */
  close(): void {
    this.#isClosed = true
    this.#disconnect()
    clearTimeout(this.#retryTimer)
  }

  #open(): void {
    const source = this.#connect(this.#url)
    this.#source = source
    for (const kind of MESSAGE_KINDS) {
      source.addEventListener(kind, (event) => {
        if (this.#source === source) this.#receive(kind, event as MessageEvent<string>)
      })
    }
    source.addEventListener('open', () => this.#restartHeartbeatTimer())
    source.addEventListener('error', () => {
      if (this.#source === source) this.#onError(source)
    })
    this.#restartHeartbeatTimer()
  }

  #receive(kind: MessageKind, event: MessageEvent<string>): void {
    this.#restartHeartbeatTimer()
    this.#retryMs = RETRY_MS_FIRST
    this.#handlers.message(kind, JSON.parse(event.data) as M)
    this.#handlers.status('live')
  }

  #onError(source: EventSourceLike): void {
    this.#handlers.status('reconnecting')
    if (source.readyState === CLOSED) void this.#reopenIfAllowed()
  }

  async #reopenIfAllowed(): Promise<void> {
    this.#disconnect()
    const mayReconnect = await this.#handlers.rejected()
    if (mayReconnect && !this.#isClosed) this.#reopenLater()
  }

  #reopenLater(): void {
    this.#retryTimer = setTimeout(() => this.#open(), this.#retryMs)
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }

  /** Restarts the timer that detects a dead connection. */
  #restartHeartbeatTimer(): void {
    clearTimeout(this.#heartbeatTimer)
    this.#heartbeatTimer = setTimeout(() => {
      this.#handlers.status('reconnecting')
      this.#disconnect()
      this.#open()
    }, HEARTBEAT_TIMEOUT_MS)
  }

  #disconnect(): void {
    clearTimeout(this.#heartbeatTimer)
    this.#source?.close()
    this.#source = undefined
  }
}
