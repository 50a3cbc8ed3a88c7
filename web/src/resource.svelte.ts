/** Data that is read from the server and, if needed, polled while the page is visible. */
import type { ApiResponse } from './client'

type Read<T> = (signal: AbortSignal) => Promise<ApiResponse<T>>

export interface ResourceOptions {
  /** Poll interval while the page is visible. Absent: read only on `reload`. */
  pollMs?: number
}

export class Resource<T> {
  /** The last response. Kept while a newer one is loading, and when loading it fails. */
  value = $state.raw<T>()
  /** The time of the last response, RFC 3339. */
  time = $state<string>()
  error = $state.raw<unknown>()
  #read: Read<T>
  #timer: ReturnType<typeof setInterval> | undefined
  #pending: AbortController | undefined
  readonly #onVisibilityChange = () => document.visibilityState === 'visible' && void this.reload()

  constructor(read: Read<T>, { pollMs }: ResourceOptions = {}) {
    this.#read = read
    void this.reload()
    this.pollEvery(pollMs)
    document.addEventListener('visibilitychange', this.#onVisibilityChange)
  }

  /** Reads again and aborts a pending read. */
  async reload(): Promise<void> {
    this.#pending?.abort()
    const pending = (this.#pending = new AbortController())
    try {
      const { body, time } = await this.#read(pending.signal)
      if (pending.signal.aborted) return
      ;[this.value, this.time, this.error] = [body, time, undefined]
    } catch (error) {
      if (!pending.signal.aborted) this.error = error
    } finally {
      if (this.#pending === pending) this.#pending = undefined
    }
  }

  /**
   * Reads from another source from now on. The old value stays until the new one is loaded, unless it is stale: it
   * would be shown as that of another player or search.
   */
  readFrom(read: Read<T>, { isStale = false } = {}): void {
    this.#read = read
    if (isStale) [this.value, this.time, this.error] = [undefined, undefined, undefined]
    void this.reload()
  }

  /** Sets a value that arrived by another way, such as a stream, and aborts a pending read, which would be older. */
  set(value: T, time: string): void {
    this.#pending?.abort()
    ;[this.value, this.time, this.error] = [value, time, undefined]
  }

  /** Changes the poll interval; `undefined` stops polling. */
  pollEvery(pollMs: number | undefined): void {
    clearInterval(this.#timer)
    const poll = () => document.visibilityState === 'visible' && !this.#pending && void this.reload()
    this.#timer = pollMs === undefined ? undefined : setInterval(poll, pollMs)
  }

  close(): void {
    this.#pending?.abort()
    clearInterval(this.#timer)
    document.removeEventListener('visibilitychange', this.#onVisibilityChange)
  }
}
