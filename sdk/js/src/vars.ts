/** The game's variables: the defaults, then what the server said last, then every change within a second. */
import type { Http, Query } from './http.js'
import { recall, remember } from './remember.js'
import { hear } from './stream.js'
import type { Variables } from './types.js'

/** How often Node, which has no stream, asks. */
const POLL_MS = 30_000

interface Known {
  /** The question it answers: another player may get other values. */
  asked?: string
  etag?: string | null
  vars?: Variables
}

export class GameVars<V extends Variables> {
  readonly #http: Http
  readonly #place: string
  readonly #query: () => Query
  readonly #defaults: V
  #known: Known
  readonly #seers = new Set<() => void>()
  #stop: (() => void) | undefined

  /** @internal */
  constructor(http: Http, place: string, query: () => Query, defaults: V) {
    this.#http = http
    this.#place = place
    this.#query = query
    this.#defaults = defaults
    this.#known = recall(place) ?? {}
  }

  /** The value now: the server's, or the one known last, or the default. */
  get<K extends keyof V & string>(name: K): V[K] {
    return this.all()[name]
  }

  all(): V {
    return { ...this.#defaults, ...(this.#known.vars as V) }
  }

  /** Asks the server once. False when it could not be asked: then everything stays as it is known. */
  async load(): Promise<boolean> {
    const asked = this.#asked()
    const etag = asked === this.#known.asked && this.#known.etag
    try {
      const headers = etag ? { 'If-None-Match': etag } : {}
      const answer = await this.#http.send('GET', '/v1/vars', { query: this.#query(), headers })
      if (answer.status === 200) this.#learn({ asked, etag: answer.etag, vars: answer.data })
      return true
    } catch {
      return false
    }
  }

  /** Shows the value now and whenever it changes; the function it gives back ends that. */
  watch<K extends keyof V & string>(name: K, see: (value: V[K]) => void): () => void {
    let shown: string | undefined
    const seer = () => {
      const value = this.get(name)
      const text = JSON.stringify(value) + ''
      if (text === shown) return
      shown = text
      see(value)
    }
    this.#seers.add(seer)
    this.#stop ??= this.#listen()
    seer()
    return () => {
      this.#seers.delete(seer)
      if (!this.#seers.size) this.#close()
    }
  }

  /** @internal The player is another one: other values may apply. */
  renew(): void {
    if (!this.#stop) return
    this.#close()
    this.#stop = this.#listen()
  }

  /** @internal */
  close(): void {
    this.#seers.clear()
    this.#close()
  }

  #close(): void {
    this.#stop?.()
    this.#stop = undefined
  }

  #asked(): string {
    return this.#http.url('', this.#query())
  }

  #listen(): () => void {
    if (globalThis.EventSource) {
      const url = () => this.#http.url('/v1/watch', { vars: 1, ...this.#query() })
      return hear(url, (_, data) => data?.vars && this.#learn({ asked: this.#asked(), vars: data.vars }))
    }
    void this.load()
    const timer = setInterval(() => this.load(), POLL_MS)
    ;(timer as { unref?: () => void }).unref?.()
    return () => clearInterval(timer)
  }

  #learn(known: Known): void {
    this.#known = known
    remember(this.#place, known)
    this.#seers.forEach((seer) => seer())
  }
}
