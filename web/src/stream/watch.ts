/**
 * One connection to `GET /v1/watch` that looks after itself.
 *
 * The browser resumes a broken stream on its own (`Last-Event-ID`). What it does not do is done
 * here: tell a lost session from a lost server, come back after an HTTP error, and notice a
 * connection that is open and dead.
 */
import { KINDS, type Kind, type Message } from './protocol'

export type Status = 'connecting' | 'live' | 'reconnecting'

export interface WatchEvents<M = Message> {
  message(kind: Kind, message: M): void
  status(status: Status): void
  /** The stream was refused. Answers whether the person is still signed in. */
  refused(): Promise<boolean>
}

/** What a watch needs of the browser's `EventSource`. */
export type Source = Pick<EventSource, 'readyState' | 'close' | 'addEventListener'>

const CLOSED = 2

/** The server sends a heartbeat every 15 s; three of them missing is a dead connection. */
const SILENCE_MS_MAX = 45_000

const RETRY_MS_FIRST = 1_000
const RETRY_MS_MAX = 30_000

export class Watch<M = Message> {
  readonly #url: string
  readonly #events: WatchEvents<M>
  readonly #connect: (url: string) => Source
  #source: Source | undefined
  #retry: ReturnType<typeof setTimeout> | undefined
  #silence: ReturnType<typeof setTimeout> | undefined
  #retryMs = RETRY_MS_FIRST
  #stopped = false

  constructor(
    url: string,
    events: WatchEvents<M>,
    connect: (url: string) => Source = (url) => new EventSource(url),
  ) {
    this.#url = url
    this.#events = events
    this.#connect = connect
    events.status('connecting')
    this.#open()
  }

  /** Ends the connection; nothing is told after this. */
  close(): void {
    this.#stopped = true
    this.#drop()
    clearTimeout(this.#retry)
  }

  #open(): void {
    const source = this.#connect(this.#url)
    this.#source = source
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (this.#source === source) this.#heard(kind, event as MessageEvent<string>)
      })
    }
    source.addEventListener('open', () => this.#listen())
    source.addEventListener('error', () => {
      if (this.#source === source) this.#failed(source)
    })
    this.#listen()
  }

  #heard(kind: Kind, event: MessageEvent<string>): void {
    this.#listen()
    this.#retryMs = RETRY_MS_FIRST
    this.#events.message(kind, JSON.parse(event.data) as M)
    this.#events.status('live')
  }

  #failed(source: Source): void {
    this.#events.status('reconnecting')
    if (source.readyState === CLOSED) void this.#reopenIfSignedIn()
  }

  async #reopenIfSignedIn(): Promise<void> {
    this.#drop()
    const signedIn = await this.#events.refused()
    if (signedIn && !this.#stopped) this.#reopenLater()
  }

  #reopenLater(): void {
    this.#retry = setTimeout(() => this.#open(), this.#retryMs)
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }

  /** Starts the wait for the next word anew. */
  #listen(): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => {
      this.#events.status('reconnecting')
      this.#drop()
      this.#open()
    }, SILENCE_MS_MAX)
  }

  #drop(): void {
    clearTimeout(this.#silence)
    this.#source?.close()
    this.#source = undefined
  }
}
