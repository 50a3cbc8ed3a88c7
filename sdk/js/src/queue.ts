/**
 * Keeps events until the server has received them.
 *
 * The queue is bounded: a game that stays offline loses its oldest events instead of filling the memory.
 */
import { backoffMs, EventsLost, isRetryable, type LossCode, PlaymeterError, Refused, Unreachable } from './errors.js'
import type { ApiResponse, Http } from './http.js'
import { readStorage, writeStorage } from './storage.js'
import { MemoryStore, openIndexedStore, type Row, type Store } from './store.js'
import type { Options } from './types.js'
import { uuid } from './uuid.js'

const PATH = '/v1/events'
const PENDING = ':sent'
/** At most three bytes per character: a batch stays below the browser's limit of 64 KiB for beacons. */
const BATCH_CHARS = 20_000
const BATCH_EVENTS = 200
/** The server's limit for one event. */
const EVENT_CHARS_MAX = 65_536
/** How long a request may take before the next page asks for its outcome. */
const PENDING_MS = 5_000
const PENDING_MAX = 200

/**
 * A request without a response yet: the id of the batch, its time and its events. In `localStorage`, because a page that
 * is left never sees the response: the next page asks the server for the outcome instead of sending the events again.
 */
type Pending = [batch: string, ms: number, ids: string[]]

export class Queue {
  readonly #http: Http
  /** Name of the store and of the lock, the same in all tabs. */
  readonly #name: string
  readonly #max: number
  readonly #interval_ms: number
  readonly #onError: (error: Error) => void
  #store: Promise<Store>
  /** Events of this tab that are in no request yet: beacons send them when the page is hidden. */
  readonly #unsent = new Map<string, string>()
  /** Events that the store has not confirmed: they would be lost if the tab closes now. */
  readonly #unwritten = new Map<string, string>()
  #writing: Promise<unknown> = Promise.resolve()
  #sending: Promise<void> | undefined
  #again = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #failures = 0
  #notBefore = 0

  constructor(
    http: Http,
    name: string,
    { queue_events_max = 2_000, flush_interval_ms = 5_000, onError }: Options,
  ) {
    this.#http = http
    this.#name = name
    this.#max = queue_events_max
    this.#interval_ms = flush_interval_ms
    this.#onError = onError ?? console.warn
    this.#store = openIndexedStore(name, this.#max).catch(() => new MemoryStore(this.#max))
    const left: Row[] = readStorage(name) ?? []
    writeStorage(name, [])
    left.forEach(([id, text]) => this.#write(id, text))
  }

  /** Queues an event. An event that cannot be serialized or is too large is reported as lost. */
  add(id: string, event: object): void {
    let text = ''
    try {
      text = JSON.stringify(event)
      if (text.length > EVENT_CHARS_MAX) throw new RangeError('size')
    } catch (cause) {
      return this.#lost('invalid', 1, cause)
    }
    this.#unsent.set(id, text)
    this.#write(id, text)
    this.schedule(this.#interval_ms)
  }

  #write(id: string, text: string): void {
    this.#unwritten.set(id, text)
    const written = this.#use((store) => store.add([id, text])).then((lost) => {
      this.#unwritten.delete(id)
      this.#lost('queue_full', lost)
    })
    this.#writing = Promise.all([this.#writing, written])
  }

  /** Schedules a flush. An earlier schedule is kept. */
  schedule(ms: number): void {
    this.#timer ??= setTimeout(() => this.flush().catch(() => {}), Math.max(ms, this.#notBefore - Date.now()))
    // In Node the timer does not keep a finished program running: `close` sends the queued events.
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  /** Ends a backoff early, when the network is back or the page is visible again. */
  wake(): void {
    this.#stop()
    this.schedule(Math.random() * 500)
  }

  /** Sends the queued events of all tabs. Overlapping calls share one run. Throws if the run fails. */
  flush(): Promise<void> {
    this.#stop()
    this.#again = true
    return (this.#sending ??= this.#run().finally(() => (this.#sending = undefined)))
  }

  /**
   * Passes this tab's unsent events to the browser, synchronously, because the page may be closed at any moment. They
   * stay queued, in `localStorage` if the store has not confirmed them, until the server has confirmed the batch.
   */
  sendBeacons(): void {
    if (this.#unwritten.size) writeStorage(this.#name, [...(readStorage(this.#name) ?? []), ...this.#unwritten])
    let rows: Row[]
    while (navigator.onLine && (rows = this.#batch([...this.#unsent])).length) {
      const id = this.#begin(rows)
      if (!navigator.sendBeacon(this.#http.url(PATH, { batch: id }), body(rows))) return this.#end(id)
      rows.forEach(([id]) => this.#unsent.delete(id))
    }
  }

  /** Notes that a request with these events begins. Returns the id of the batch. */
  #begin(rows: Row[]): string {
    const id = uuid()
    this.#pending = [...this.#pending, [id, Date.now(), idsOf(rows)]]
    return id
  }

  /** Notes that the outcome of a request is known. */
  #end(batch: string): void {
    this.#pending = this.#pending.filter(([id]) => id !== batch)
  }

  get #pending(): Pending[] {
    return readStorage(this.#name + PENDING) ?? []
  }

  set #pending(pending: Pending[]) {
    writeStorage(this.#name + PENDING, pending.slice(-PENDING_MAX))
  }

  /** Returns as many of the first rows as fit in one request, but at least one, without those of pending requests. */
  #batch(rows: Row[]): Row[] {
    const pending = new Set(this.#pending.flatMap(([, , ids]) => ids))
    let chars = 0
    return rows
      .filter(([id]) => !pending.has(id))
      .filter(([, text], i) => (chars += text.length) < BATCH_CHARS || !i)
  }

  /** Removes the events that an earlier request has delivered. Returns how many are in requests that may be under way. */
  async #settle(): Promise<number> {
    let waiting = 0
    for (const [batch, ms, ids] of this.#pending) {
      // The clock may have been set back.
      if (Math.abs(Date.now() - ms) < PENDING_MS) {
        waiting += ids.length
        this.schedule(PENDING_MS)
      } else {
        const error = await this.#http.send('GET', PATH + '/receipts/' + batch, {}).then(
          (response) => this.#report(response),
          (error) => error,
        )
        // Offline, the outcome stays unknown. After any other error the events are sent again.
        if (error instanceof Unreachable) throw error
        await this.#finish(batch, error ? [] : ids)
      }
    }
    return waiting
  }

  async #finish(batch: string, delivered: string[]): Promise<void> {
    await this.#use((store) => store.remove(delivered))
    this.#end(batch)
  }

  #report({ data }: ApiResponse): void {
    if (data) this.#lost('invalid', data.invalid + data.late + data.limited, data.results)
  }

  async #run(): Promise<void> {
    try {
      while (this.#again) {
        this.#again = false
        await withLock(this.#name, () => this.#drain())
      }
    } catch (error) {
      const ms = backoffMs(++this.#failures, error)
      this.#notBefore = (error as { retryAfterMs?: number }).retryAfterMs ? Date.now() + ms : 0
      this.schedule(ms)
      throw error
    }
    this.#failures = 0
  }

  async #drain(): Promise<void> {
    const wait = this.#notBefore - Date.now()
    if (wait > 0) throw new PlaymeterError('waiting', `wait ${wait} ms`)
    for (;;) {
      await this.#writing
      const written = [...this.#unsent.keys()]
      const waiting = await this.#settle()
      const rows = this.#batch(await this.#use((store) => store.read(BATCH_EVENTS + waiting)))
      if (!rows.length) {
        // Other tabs have sent the rest.
        written.forEach((id) => this.#unsent.delete(id))
        return
      }
      await this.#send(rows)
    }
  }

  /** Sends a batch. Returns when it was received, or rejected and reported as lost. Throws if it can be retried. */
  async #send(rows: Row[]): Promise<void> {
    const own = rows.filter(([id]) => this.#unsent.delete(id))
    const text = body(rows)
    const id = this.#begin(rows)
    try {
      // The browser's limit for keepalive requests is shared with beacons: a retry does without.
      const keepalive = !this.#failures && text.length < 3 * BATCH_CHARS
      this.#report(await this.#http.send('POST', PATH, { query: { batch: id }, body: text, keepalive }))
    } catch (error) {
      if (isRetryable(error)) {
        own.forEach(([id, event]) => this.#unsent.set(id, event))
        // Without a response the outcome is unknown, and a page that is being left sees all its requests fail.
        if (error instanceof Refused) this.#end(id)
        throw error
      }
      this.#lost('refused', rows.length, error)
    }
    await this.#finish(id, idsOf(rows))
  }

  /** Uses the store. A store that fails, or that the browser deleted, is replaced by one in memory. */
  async #use<T>(use: (store: Store) => Promise<T>): Promise<T> {
    const store = this.#store
    try {
      return await use(await store)
    } catch {
      if (this.#store === store) this.#store = Promise.resolve(new MemoryStore(this.#max, this.#unsent))
      return use(await this.#store)
    }
  }

  #lost(code: LossCode, count: number, cause?: unknown): void {
    if (count) this.#onError(new EventsLost(code, count, cause))
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

function idsOf(rows: Row[]): string[] {
  return rows.map(([id]) => id)
}

function body(rows: Row[]): string {
  return `{"sent_at":${JSON.stringify(new Date())},"events":[${rows.map(([, text]) => text)}]}`
}

/** Runs in one tab at a time. Without locks (plain HTTP, a sandbox) tabs may overlap: the server deduplicates by id. */
function withLock(name: string, run: () => Promise<void>): Promise<void> {
  const { locks } = globalThis.navigator ?? {}
  if (!locks) return run()
  return locks.request(name, run).then(undefined, (error: { code?: unknown }) => {
    // SecurityError: the browser denies storage.
    if (error.code === 18) return run()
    throw error
  })
}
