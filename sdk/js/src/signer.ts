/** Signs writes with a key of the player's session, so that no other client can write in the player's name. */
import { PlaymeterError } from './errors.js'
import type { Http } from './http.js'
import type { Sha256 } from './types.js'
import { hex, uuid } from './uuid.js'

/** The server keeps a session for 15 minutes. */
const LIFE_MS = 900_000
const RENEW_BEFORE_MS = 60_000

interface Session {
  id: string
  key: Uint8Array
  /** How far the server's clock is ahead. Signatures carry the server's time, because the clocks of phones are often wrong. */
  skewMs: number
}

export interface Identity {
  player: string
  name?: string | undefined
}

export class Signer {
  readonly #http: Http
  identity: Identity
  readonly #sha256: Sha256
  #session: Promise<Session> | undefined
  /** When the session is replaced. */
  #renewMs = 0

  constructor(http: Http, identity: Identity, sha256: Sha256 = byWebCrypto) {
    this.#http = http
    this.identity = identity
    this.#sha256 = sha256
  }

  /** Discards the session, after the player changed or the server rejected it. */
  reset(): void {
    this.#session = undefined
  }

  /** Returns the header that signs a request. */
  async sign(method: string, path: string, body = ''): Promise<Record<string, string>> {
    const { id, key, skewMs } = await this.#current()
    const utf8 = new TextEncoder()
    const at = Math.floor((Date.now() + skewMs) / 1000)
    const nonce = uuid()
    const message = [at, nonce, method, path, hex(await this.#sha256(utf8.encode(body)))].join('\n')
    const mac = hex(await this.#hmac(key, utf8.encode(message)))
    return { 'X-Playmeter-Signature': ['v1', id, at, nonce, mac].join(';') }
  }

  #current(): Promise<Session> {
    if (Date.now() > this.#renewMs) this.reset()
    return (this.#session ??= this.#create().catch((error) => {
      this.reset()
      throw error
    }))
  }

  async #create(): Promise<Session> {
    this.#renewMs = Date.now() + LIFE_MS - RENEW_BEFORE_MS
    const { data } = await this.#http.send('POST', '/v1/session', { body: JSON.stringify(this.identity) })
    const key = Uint8Array.from(atob(data.key.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
    return { id: data.session, key, skewMs: Date.parse(data.expires_at) - LIFE_MS - Date.now() }
  }

  /** HMAC (RFC 2104) for keys that are not longer than a block. */
  async #hmac(key: Uint8Array, message: Uint8Array): Promise<Uint8Array> {
    const inner = await this.#sha256(padded(key, 0x36, message))
    return this.#sha256(padded(key, 0x5c, inner))
  }
}

function padded(key: Uint8Array, byte: number, text: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(64 + text.length).fill(byte, 0, 64)
  key.forEach((k, i) => (bytes[i]! ^= k))
  bytes.set(text, 64)
  return bytes
}

async function byWebCrypto(message: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const { subtle } = crypto
  if (!subtle) throw new PlaymeterError('insecure', 'needs sha256')
  return new Uint8Array(await subtle.digest('SHA-256', message))
}
