/** Reads and writes of live-ops: a write is signed, tried again, and done once. */
import { backOffMs, mayRetry, Refused } from './errors.js'
import type { Http, Query } from './http.js'
import type { Signer, Who } from './signer.js'
import { uuid } from './uuid.js'

const TRIES = 3
/** A call does not hang for longer than a player waits; a later one may find the server again. */
const WAIT_MS_MAX = 5_000

export class Api {
  readonly #http: Http
  readonly #signer: Signer

  constructor(http: Http, signer: Signer) {
    this.#http = http
    this.#signer = signer
  }

  get who(): Who {
    return this.#signer.who
  }

  async get<T>(path: string, query: Query = {}): Promise<T> {
    return (await again(() => this.#http.send('GET', path, { query }))).data
  }

  /** The same key at every try: the server does it once, and answers the same. */
  async write<T>(method: string, path: string, value?: object, query: Query = {}): Promise<T> {
    const body = value && JSON.stringify(value)
    const once = { 'Idempotency-Key': uuid() }
    let renewed = false
    const attempt = async (): Promise<T> => {
      const proof = this.#http.secret ? {} : await this.#signer.sign(method, path, body)
      try {
        return (await this.#http.send(method, path, { query, body, headers: { ...once, ...proof } })).data
      } catch (failure) {
        // The session ended, or the server lost it: a new one, once.
        if (renewed || (failure as Refused).code !== 'signature') throw failure
        renewed = true
        this.#signer.forget()
        return attempt()
      }
    }
    return again(attempt)
  }

  /** `friends: 'follows'` means those the player follows. */
  friends<T extends { friends?: string[] | 'follows' }>(query: T): object {
    return query.friends === 'follows' ? { ...query, friends: 'follows:' + this.who.player } : query
  }
}

async function again<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (failure) {
      const ms = backOffMs(tries, failure)
      if (tries >= TRIES || ms > WAIT_MS_MAX || !mayRetry(failure)) throw failure
      await new Promise((done) => setTimeout(done, ms))
    }
  }
}
