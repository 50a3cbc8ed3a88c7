/** Requests to the server. */
import { Refused, Unreachable } from './errors.js'

/** Query parameters. Undefined values are omitted, lists are joined by commas, an object becomes `name.key=value`. */
export type Query = object

export interface RequestOptions {
  query?: Query | undefined
  body?: string | undefined
  headers?: Record<string, string>
  keepalive?: boolean
}

export interface ApiResponse {
  status: number
  data: any
  etag: string | null
}

const TIMEOUT_MS = 60_000

export class Http {
  readonly #base: string
  readonly #key: string
  /** The server rejects secret keys in a URL. Public keys are sent there, so that requests need no CORS preflight. */
  readonly secret: boolean

  constructor(url: string, key: string) {
    this.#base = url.replace(/\/+$/, '')
    this.#key = key
    this.secret = key.startsWith('pm_sk')
  }

  /** Returns the URL of a path. */
  url(path: string, query: Query = {}): string {
    const pairs = new URLSearchParams()
    for (const [name, value] of Object.entries(query)) {
      const inner = value?.constructor === Object ? Object.entries(value) : [['', value]]
      for (const [key, one] of inner) {
        if (one !== undefined) pairs.set(key ? name + '.' + key : name, String(one))
      }
    }
    if (!this.secret) pairs.set('key', this.#key)
    return this.#base + path + '?' + pairs
  }

  /** Sends a request. Throws `Unreachable` or `Refused`. */
  async send(method: string, path: string, { query, headers, ...rest }: RequestOptions): Promise<ApiResponse> {
    let response: Response
    let text: string
    try {
      response = await fetch(this.url(path, query), {
        method,
        headers: { ...headers, ...(this.secret && { Authorization: 'Bearer ' + this.#key }) },
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...rest,
      } as RequestInit)
      text = await response.text()
    } catch (cause) {
      throw new Unreachable(cause)
    }
    const { status } = response
    const data = parse(text)
    if (!response.ok && status !== 304) throw new Refused(response, data ?? {})
    return { status, data, etag: response.headers.get('etag') }
  }
}

/** Parses JSON; returns undefined for anything else, such as an error page of a proxy. */
export function parse(text: string | null): any {
  try {
    return JSON.parse(text!)
  } catch {
    return undefined
  }
}
