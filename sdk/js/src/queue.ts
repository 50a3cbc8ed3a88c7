/**
 * Keeps events until the server has them.
 *
 * The queue is bounded: a game that stays offline loses its oldest events, never its memory.
 */
import { backOffMs, EventsLost, type Loss, mayRetry, PlaymeterError } from './errors.js'
import type { Http } from './http.js'
import { recall, remember } from './remember.js'
import { IndexedStore, MemoryStore, type Row, type Store } from './store.js'
import type { Options } from './types.js'

const PATH = '/v1/events'
/** At most three bytes each: a batch stays below the 64 KiB that a browser sends for a page that is gone. */
const BATCH_CHARS = 20_000
const BATCH_EVENTS = 200
/** The server's own limit of an event. */
const EVENT_CHARS_MAX = 65_536

export class Queue {
  readonly #http: Http
  /** Of the store and of the lock: the same in all tabs. */
  readonly #name: string
  readonly #max: number
  readonly #interval_ms: number
  readonly #onError: (error: Error) => void
  #store: Promise<Store>
  /** Events of this tab that no request carries yet: a beacon takes them when the page is hidden. */
  readonly #fresh = new Map<string, string>()
  /** Events that the store has not confirmed: a tab that closes now would take them with it. */
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
    this.#store = IndexedStore.open(name, this.#max).catch(() => new MemoryStore(this.#max))
    const left: Row[] = recall(name) ?? []
    remember(name, [])
    left.forEach(([id, text]) => this.#write(id, text))
  }

  /** Takes an event; what is not JSON or too large is reported as lost. */
  add(id: string, event: object): void {
    let text = ''
    try {
      text = JSON.stringify(event)
      if (text.length > EVENT_CHARS_MAX) throw new RangeError('too large')
    } catch (cause) {
      return this.#lost('invalid', 1, cause)
    }
    this.#fresh.set(id, text)
    this.#write(id, text)
    this.later(this.#interval_ms)
  }

  #write(id: string, text: string): void {
    this.#unwritten.set(id, text)
    const written = this.#use((store) => store.add([id, text])).then((lost) => {
      this.#unwritten.delete(id)
      this.#lost('queue_full', lost)
    })
    this.#writing = Promise.all([this.#writing, written])
  }

  /** Sends soon; an earlier appointment stands. */
  later(ms: number): void {
    this.#timer ??= setTimeout(() => this.flush().catch(() => {}), Math.max(ms, this.#notBefore - Date.now()))
    // In Node a waiting event does not keep a finished program alive: `close` sends it.
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  /** The network is back, or the page is seen again: no reason to wait for the end of a back-off. */
  wake(): void {
    this.#stop()
    this.later(Math.random() * 500)
  }

  /** Sends what is waiting, of all tabs. Calls that overlap share one run. Throws why it could not. */
  flush(): Promise<void> {
    this.#stop()
    this.#again = true
    return (this.#sending ??= this.#run().finally(() => (this.#sending = undefined)))
  }

  /**
   * The page may be gone in a moment: hands this tab's unsent events to the browser, synchronously. They
   * stay in the queue, in `localStorage` where the store is too slow: ids make the second time harmless.
   */
  leave(): void {
    if (this.#unwritten.size) remember(this.#name, [...(recall(this.#name) ?? []), ...this.#unwritten])
    while (this.#fresh.size) {
      const rows = batch([...this.#fresh])
      if (!navigator.sendBeacon?.(this.#http.url(PATH), body(rows))) return
      rows.forEach(([id]) => this.#fresh.delete(id))
    }
  }

  async #run(): Promise<void> {
    try {
      while (this.#again) {
        this.#again = false
        await alone(this.#name, () => this.#drain())
      }
    } catch (failure) {
      const ms = backOffMs(++this.#failures, failure)
      this.#notBefore = (failure as { retryAfterMs?: number }).retryAfterMs ? Date.now() + ms : 0
      this.later(ms)
      throw failure
    }
    this.#failures = 0
  }

  async #drain(): Promise<void> {
    const wait = this.#notBefore - Date.now()
    if (wait > 0) throw new PlaymeterError('waiting', `the server asked to wait ${wait} ms more`)
    for (;;) {
      await this.#writing
      const rows = batch(await this.#use((store) => store.read(BATCH_EVENTS)))
      if (!rows.length) return
      await this.#send(rows)
      await this.#use((store) => store.remove(rows.map(([id]) => id)))
    }
  }

  /** Returns when the rows are settled: taken, or lost and reported. */
  async #send(rows: Row[]): Promise<void> {
    const own = rows.filter(([id]) => this.#fresh.delete(id))
    const text = body(rows)
    try {
      // Beacons and other requests share what the browser allows; a second try does without.
      const keepalive = !this.#failures && text.length < 3 * BATCH_CHARS
      const { data } = await this.#http.send('POST', PATH, { body: text, keepalive })
      const lost = data ? data.invalid + data.late + data.limited : 0
      this.#lost('invalid', lost, data?.results)
    } catch (failure) {
      if (mayRetry(failure)) {
        own.forEach(([id, event]) => this.#fresh.set(id, event))
        throw failure
      }
      this.#lost('refused', rows.length, failure)
    }
  }

  /** A store that fails, or that the browser took away, is replaced by memory. */
  async #use<T>(use: (store: Store) => Promise<T>): Promise<T> {
    const store = this.#store
    try {
      return await use(await store)
    } catch {
      if (this.#store === store) this.#store = Promise.resolve(new MemoryStore(this.#max, this.#fresh))
      return use(await this.#store)
    }
  }

  #lost(code: Loss, count: number, cause?: unknown): void {
    if (count) this.#onError(new EventsLost(code, count, cause))
  }

  #stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

/** As many of the first rows as one request carries; one at least. */
function batch(rows: Row[]): Row[] {
  let chars = 0
  return rows.filter(([, text], i) => (chars += text.length) < BATCH_CHARS || !i)
}

function body(rows: Row[]): string {
  return `{"sent_at":${JSON.stringify(new Date())},"events":[${rows.map(([, text]) => text)}]}`
}

/** One tab at a time. Where locks are missing (plain http) or forbidden (a sandbox), the server tells by the ids. */
function alone(name: string, run: () => Promise<void>): Promise<void> {
  const { locks } = globalThis.navigator ?? {}
  if (!locks) return run()
  return locks.request(name, run).then(undefined, (failure: Error) => {
    if (failure.name === 'SecurityError') return run()
    throw failure
  })
}
