/** One server: its requests, headers and cookies. */
import { isDeepStrictEqual } from 'node:util'

/** The largest response that is read. */
const BODY_BYTES_MAX = 64 << 20
const BODILESS = ['GET', 'HEAD', 'OPTIONS']

/** There was no response, or not all of it. */
export class NoResponse extends Error {}

/** A response. `body` is the parsed JSON, the list of messages of a stream, or the text. */
export class ApiResponse {
  constructor(fields) {
    Object.assign(this, fields)
  }
}

export class Session {
  #key
  #timeout_ms
  #onMessage = () => {}
  #running = new Set()
  /** Headers of every request, besides the key and the cookies. */
  headers
  /** Cookies by name. */
  cookies = {}
  /** The last response. */
  last
  verbose

  constructor({ url, urlSource, key, keySource, headers, timeout_ms, verbose }) {
    Object.assign(this, { url, urlSource, keySource, headers, verbose })
    this.#key = key
    this.#timeout_ms = timeout_ms
  }

  /** Changes the server. Cookies belong to a server, and so does the key. */
  connect(url) {
    if (url === this.url) return
    Object.assign(this, { url, urlSource: 'command', keySource: '', cookies: {} })
    this.#key = ''
  }

  useKey(key) {
    this.#key = key
    this.keySource = key ? 'command' : ''
  }

  /** Calls `onMessage` with each message of an event stream as it arrives. */
  onMessage(onMessage) {
    this.#onMessage = onMessage
  }

  /** Ends the running requests. Returns false if there are none. */
  abort() {
    for (const controller of this.#running) controller.abort(new Error('interrupted'))
    return this.#running.size > 0
  }

  /** One line about the server and the key, without the secret. */
  describe() {
    const key = this.#key
      ? `${this.#key.startsWith('pm_sk_') ? 'secret' : 'public'} key ${masked(this.#key)} (${this.keySource})`
      : 'no key'
    const cookies = Object.keys(this.cookies)
    return `${this.url} (${this.urlSource}), ${key}${cookies.length ? `, cookies: ${cookies.join(', ')}` : ''}`
  }

  /** Sends a request and returns the response, whatever its status. */
  async request(method, path, body, extra = {}) {
    if (typeof path !== 'string' || !path.startsWith('/')) throw new TypeError('the path must begin with /')
    if (BODILESS.includes(method) && body !== undefined) {
      if (body === null || typeof body !== 'object') throw new TypeError(`the query of ${method} must be an object`)
      path += (path.includes('?') ? '&' : '?') + new URLSearchParams(Object.entries(body).map(([k, v]) => [k, String(v)]))
      body = undefined
    }
    const request = this.#prepare(method, path, body, extra.headers)
    this.#log('>', `${method} ${request.url}`, shown(request.headers), request.body)
    const controller = new AbortController()
    this.#running.add(controller)
    const timer = setTimeout(() => controller.abort(new Error(`no response within ${this.#timeout_ms / 1000} s`)), this.#timeout_ms)
    try {
      this.last = await this.#send(request, controller.signal, timer)
    } catch (error) {
      if (error instanceof NoResponse || error instanceof RangeError) throw error
      throw new NoResponse(`no response from ${this.url}: ${reason(error)}`, { cause: error })
    } finally {
      clearTimeout(timer)
      this.#running.delete(controller)
    }
    return this.last
  }

  #prepare(method, path, body, extra = {}) {
    const json = body !== undefined && typeof body !== 'string'
    const cookies = Object.entries(this.cookies).map(([name, value]) => `${name}=${value}`)
    const defaults = {
      Accept: 'application/json, */*;q=0.5',
      ...(this.#key && { Authorization: `Bearer ${this.#key}` }),
      ...(cookies.length && { Cookie: cookies.join('; ') }),
      ...(body !== undefined && { 'Content-Type': json ? 'application/json' : 'text/plain' }),
    }
    const headers = new Headers(defaults)
    for (const [name, value] of Object.entries({ ...this.headers, ...extra })) headers.set(name, value)
    return { method, url: this.url + path, path, headers, body: json ? JSON.stringify(body) : body }
  }

  async #send({ method, url, path, headers, body }, signal, timer) {
    const started = performance.now()
    const response = await fetch(url, { method, headers, body, signal, redirect: 'manual' })
    for (const cookie of response.headers.getSetCookie()) this.#keep(cookie)
    const found = { status: response.status, headers: Object.fromEntries(response.headers) }
    this.#log('<', `${response.status} ${response.statusText}`, response.headers)
    const streams = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
    if (streams) clearTimeout(timer)
    const { text, messages } = streams ? await this.#follow(response, signal) : { text: await readText(response) }
    const request = { method, path, headers: Object.fromEntries(shown(headers)), body }
    const ms = Math.round(performance.now() - started)
    return new ApiResponse({ ...found, ms, body: messages ?? parse(text), text, request, ...(messages && { messages }) })
  }

  /** Reads a stream until it ends or is interrupted. */
  async #follow(response, signal) {
    const messages = []
    let text = ''
    let rest = ''
    try {
      for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
        text += part
        if (text.length > BODY_BYTES_MAX) throw new RangeError(`the stream is longer than ${BODY_BYTES_MAX} bytes`)
        const blocks = (rest + part).split('\n\n')
        rest = blocks.pop()
        for (const message of blocks.map(parseMessage).filter(Boolean)) {
          messages.push(message)
          this.#onMessage(message)
        }
      }
    } catch (error) {
      if (!signal.aborted) throw error
    }
    return { text, messages }
  }

  #keep(cookie) {
    const [pair, ...attributes] = cookie.split(';').map((part) => part.trim())
    const at = pair.indexOf('=')
    const name = pair.slice(0, at)
    if (attributes.some((attribute) => /^max-age=(0|-\d+)$/i.test(attribute))) delete this.cookies[name]
    else this.cookies[name] = pair.slice(at + 1)
  }

  #log(mark, first, headers, body) {
    if (!this.verbose) return
    const lines = [first, ...[...headers].map(([name, value]) => `${name}: ${value}`), ...(body ? ['', body] : [])]
    process.stderr.write(lines.map((line) => `${mark} ${line}\n`).join(''))
  }
}

function masked(key) {
  return key.length > 16 ? `${key.slice(0, 8)}...${key.slice(-4)}` : `${key.slice(0, 6)}...`
}

/** Returns headers in which the secrets are hidden. */
function shown(headers) {
  const hidden = new Headers(headers)
  const authorization = hidden.get('authorization')
  if (authorization) hidden.set('authorization', `Bearer ${masked(authorization.replace(/^Bearer /, ''))}`)
  if (hidden.has('cookie')) hidden.set('cookie', hidden.get('cookie').replace(/=[^;]*/g, '=...'))
  return hidden
}

async function readText(response) {
  const parts = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > BODY_BYTES_MAX) throw new RangeError(`the response is longer than ${BODY_BYTES_MAX} bytes`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString()
}

function parse(text) {
  try {
    return text === '' ? undefined : JSON.parse(text)
  } catch {
    return text
  }
}

/** Parses a message of an event stream; undefined for a comment. */
function parseMessage(block) {
  const message = {}
  for (const line of block.split('\n')) {
    const [, name, value] = /^(event|data|id): ?(.*)$/.exec(line) ?? []
    if (name === 'data') message.data = message.data === undefined ? value : `${message.data}\n${value}`
    else if (name) message[name] = value
  }
  if (isDeepStrictEqual(message, {})) return undefined
  return { ...message, data: parse(message.data ?? '') }
}

function reason(error) {
  const cause = error.cause ?? error
  const causes = cause.errors ?? [cause]
  return causes.map(({ message, code }) => message || code).join('; ')
}
