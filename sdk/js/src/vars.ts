/** The game's variables: the defaults, then the last values from the server, updated within a second of a change. */
import type { Http, Query } from './http.js'
import { readStorage, writeStorage } from './storage.js'
import { subscribe } from './stream.js'
import type { Variables } from './types.js'

/** The poll interval in Node, which has no `EventSource`. */
const POLL_MS = 30_000

/** Stored in `localStorage`: the fields keep their names. */
interface CachedVars {
  /** The URL of the request; another player may have other values. */
  asked?: string
  etag?: string | null
  vars?: Variables
}

export class GameVars<V extends Variables> {
  readonly #http: Http
  readonly #storageKey: string
  readonly #query: () => Query
  readonly #defaults: V
  #cached: CachedVars
  readonly #listeners = new Set<() => void>()
  #stop: (() => void) | undefined

  /** @internal */
  constructor(http: Http, storageKey: string, query: () => Query, defaults: V) {
    this.#http = http
    this.#storageKey = storageKey
    this.#query = query
    this.#defaults = defaults
    this.#cached = readStorage(storageKey) ?? {}
  }

  /** Returns the current value: the last one from the server, or the default. */
  get<K extends keyof V & string>(name: K): V[K] {
    return this.all()[name]
  }

  all(): V {
    return { ...this.#defaults, ...(this.#cached.vars as V) }
  }

  /** Loads the variables once. Returns false if that fails; the current values then stay. */
  async load(): Promise<boolean> {
    const asked = this.#requestKey()
    const etag = asked === this.#cached.asked && this.#cached.etag
    try {
      const headers = etag ? { 'If-None-Match': etag } : {}
      const response = await this.#http.send('GET', '/v1/vars', { query: this.#query(), headers })
      if (response.status === 200) this.#update({ asked, etag: response.etag, vars: response.data })
      return true
    } catch {
      return false
    }
  }

  /** Calls `onChange` with the current value and after every change. Returns a function that stops watching. */
  watch<K extends keyof V & string>(name: K, onChange: (value: V[K]) => void): () => void {
    let last: string | undefined
    const listener = () => {
      const value = this.get(name)
      const text = JSON.stringify(value) + ''
      if (text === last) return
      last = text
      onChange(value)
    }
    this.#listeners.add(listener)
    this.#stop ??= this.#listen()
    listener()
    return () => {
      this.#listeners.delete(listener)
      if (!this.#listeners.size) this.#close()
    }
  }

  /** @internal Reconnects after the player changed, for whom the values may differ. */
  resubscribe(): void {
    if (!this.#stop) return
    this.#close()
    this.#stop = this.#listen()
  }

  /** @internal */
  close(): void {
    this.#listeners.clear()
    this.#close()
  }

  #close(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  #requestKey(): string {
    return this.#http.url('', this.#query())
  }

  #listen(): () => void {
    if (globalThis.EventSource) {
      const url = () => this.#http.url('/v1/watch', { vars: 1, ...this.#query() })
      return subscribe(url, (_, data) => data?.vars && this.#update({ asked: this.#requestKey(), vars: data.vars }))
    }
    void this.load()
    const timer = setInterval(() => this.load(), POLL_MS)
    ;(timer as { unref?: () => void }).unref?.()
    return () => clearInterval(timer)
  }

  #update(cached: CachedVars): void {
    this.#cached = cached
    writeStorage(this.#storageKey, cached)
    this.#listeners.forEach((listener) => listener())
  }
}
