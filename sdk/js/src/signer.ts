/** Who plays, and the session with the server that signs for it: nobody else can write in the player's name. */
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
  /** What the server's clock is ahead of ours: phones have wrong clocks, signatures must not. */
  skewMs: number
  madeMs: number
}

export interface Who {
  player: string
  name?: string | undefined
}

export class Signer {
  readonly #http: Http
  who: Who
  readonly #sha256: Sha256
  #session: Promise<Session> | undefined

  constructor(http: Http, who: Who, sha256: Sha256 = byWebCrypto) {
    this.#http = http
    this.who = who
    this.#sha256 = sha256
  }

  /** The session is no longer this player's, or not one that the server knows. */
  forget(): void {
    this.#session = undefined
  }

  /** The header that signs this request. */
  async sign(method: string, path: string, body = ''): Promise<Record<string, string>> {
    const { id, key, skewMs } = await this.#current()
    const utf8 = new TextEncoder()
    const at = Math.floor((Date.now() + skewMs) / 1000)
    const nonce = uuid()
    const said = [at, nonce, method, path, hex(await this.#sha256(utf8.encode(body)))].join('\n')
    const proof = hex(await this.#hmac(key, utf8.encode(said)))
    return { 'X-Playmeter-Signature': ['v1', id, at, nonce, proof].join(';') }
  }

  async #current(): Promise<Session> {
    const asked = (this.#session ??= this.#ask())
    asked.catch(() => this.forget())
    const session = await asked
    if (Date.now() - session.madeMs < LIFE_MS - RENEW_BEFORE_MS) return session
    if (this.#session === asked) this.forget()
    return this.#current()
  }

  async #ask(): Promise<Session> {
    const { data } = await this.#http.send('POST', '/v1/session', { body: JSON.stringify(this.who) })
    const madeMs = Date.now()
    const key = Uint8Array.from(atob(data.key.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0))
    return { id: data.session, key, skewMs: Date.parse(data.expires_at) - LIFE_MS - madeMs, madeMs }
  }

  /** RFC 2104; the key is no longer than a block. */
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
  if (!subtle) throw new PlaymeterError('insecure', 'a page over plain http signs with the option `sha256`')
  return new Uint8Array(await subtle.digest('SHA-256', message))
}
