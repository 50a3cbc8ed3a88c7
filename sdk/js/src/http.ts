/** One request: what is asked, what came back, or why not. */
import { Refused, Unreachable } from './errors.js'

/** Absent ones are left out, lists are joined by commas, an object becomes `name.key=value`. */
export type Query = object

export interface Call {
  query?: Query | undefined
  body?: string | undefined
  headers?: Record<string, string>
  keepalive?: boolean
}

export interface Answer {
  status: number
  data: any
  etag: string | null
}

const TIMEOUT_MS = 60_000

export class Http {
  readonly #base: string
  readonly #key: string
  /** Secret keys are refused in an address. Public ones stand there: a plain request needs no preflight. */
  readonly secret: boolean

  constructor(url: string, key: string) {
    this.#base = url.replace(/\/+$/, '')
    this.#key = key
    this.secret = key.startsWith('pm_sk')
  }

  /** The whole address of a path. */
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

  /** Throws `Unreachable` or `Refused`. */
  async send(method: string, path: string, { query, headers, ...rest }: Call): Promise<Answer> {
    let answer: Response
    let text: string
    try {
      answer = await fetch(this.url(path, query), {
        method,
        headers: { ...headers, ...(this.secret && { Authorization: 'Bearer ' + this.#key }) },
        signal: AbortSignal.timeout(TIMEOUT_MS),
        ...rest,
      } as RequestInit)
      text = await answer.text()
    } catch (cause) {
      throw new Unreachable(cause)
    }
    const { status } = answer
    const data = parse(text)
    if (!answer.ok && status !== 304) throw new Refused(answer, data ?? {})
    return { status, data, etag: answer.headers.get('etag') }
  }
}

/** JSON, or nothing where it is something else: a proxy's page, say. */
export function parse(text: string | null): any {
  try {
    return JSON.parse(text!)
  } catch {
    return undefined
  }
}
