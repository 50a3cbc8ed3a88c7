/** Reads and writes of live-ops. A write is signed, retried and applied once. */
import { backoffMs, isRetryable, Refused } from './errors.js'
import type { Http, Query } from './http.js'
import type { Identity, Signer } from './signer.js'
import { uuid } from './uuid.js'

const TRIES = 3
/** A retry that would be delayed longer than this is not made: no player waits that long. */
const WAIT_MS_MAX = 5_000

export class Api {
  readonly #http: Http
  readonly #signer: Signer

  constructor(http: Http, signer: Signer) {
    this.#http = http
    this.#signer = signer
  }

  get identity(): Identity {
    return this.#signer.identity
  }

  async get<T>(path: string, query: Query = {}): Promise<T> {
    return (await withRetries(() => this.#http.send('GET', path, { query }))).data
  }

  /** Every try has the same idempotency key: the server applies the write once and repeats its response. */
  async write<T>(method: string, path: string, value?: object, query: Query = {}): Promise<T> {
    const body = value && JSON.stringify(value)
    const idempotency = { 'Idempotency-Key': uuid() }
    let isRenewed = false
    const attempt = async (): Promise<T> => {
      const signature = this.#http.secret ? {} : await this.#signer.sign(method, path, body)
      try {
        return (await this.#http.send(method, path, { query, body, headers: { ...idempotency, ...signature } })).data
      } catch (error) {
        // The session has expired, or the server no longer knows it: retry once with a new one.
        if (isRenewed || (error as Refused).code !== 'signature') throw error
        isRenewed = true
        this.#signer.reset()
        return attempt()
      }
    }
    return withRetries(attempt)
  }

  /** Resolves `friends: 'follows'` to the players that the player follows. */
  friends<T extends { friends?: string[] | 'follows' }>(query: T): object {
    return query.friends === 'follows' ? { ...query, friends: 'follows:' + this.identity.player } : query
  }
}

async function withRetries<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await attempt()
    } catch (error) {
      const delayMs = backoffMs(tries, error)
      if (tries >= TRIES || delayMs > WAIT_MS_MAX || !isRetryable(error)) throw error
      await new Promise((done) => setTimeout(done, delayMs))
    }
  }
}
