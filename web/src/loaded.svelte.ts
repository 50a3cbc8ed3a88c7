/** Something read from the server, kept current while the page is looked at. */
import type { Answer } from './client'

export interface LoadedOptions {
  /** How often it is read again while the page is visible; absent: when it is asked for. */
  everyMs?: number
}

export class Loaded<T> {
  /** The last answer; it stays while a newer one is read, and when that fails. */
  value = $state.raw<T>()
  /** When the last answer was given, RFC 3339. */
  time = $state<string>()
  error = $state.raw<unknown>()
  #read: (signal: AbortSignal) => Promise<Answer<T>>
  #timer: ReturnType<typeof setInterval> | undefined
  #running: AbortController | undefined
  readonly #shown = () => document.visibilityState === 'visible' && void this.reload()

  constructor(read: (signal: AbortSignal) => Promise<Answer<T>>, { everyMs }: LoadedOptions = {}) {
    this.#read = read
    void this.reload()
    this.every(everyMs)
    document.addEventListener('visibilitychange', this.#shown)
  }

  /** Reads again; an answer that is still under way is not waited for. */
  async reload(): Promise<void> {
    this.#running?.abort()
    const running = (this.#running = new AbortController())
    try {
      const { body, time } = await this.#read(running.signal)
      if (running.signal.aborted) return
      ;[this.value, this.time, this.error] = [body, time, undefined]
    } catch (error) {
      if (!running.signal.aborted) this.error = error
    } finally {
      if (this.#running === running) this.#running = undefined
    }
  }

  /** Reads something else from now on. What is shown stays until it is there. */
  reread(read: (signal: AbortSignal) => Promise<Answer<T>>): void {
    this.#read = read
    void this.reload()
  }

  /** Takes what came by another way; an answer that is under way is older. */
  take(value: T, time: string): void {
    this.#running?.abort()
    ;[this.value, this.time, this.error] = [value, time, undefined]
  }

  /** Changes how often it is read again; `undefined`: not by itself. */
  every(everyMs: number | undefined): void {
    clearInterval(this.#timer)
    const due = () => document.visibilityState === 'visible' && !this.#running && void this.reload()
    this.#timer = everyMs === undefined ? undefined : setInterval(due, everyMs)
  }

  close(): void {
    this.#running?.abort()
    clearInterval(this.#timer)
    document.removeEventListener('visibilitychange', this.#shown)
  }
}
