/** Requests about one game, made as the signed-in user. */
import { ProblemError, problemFrom, type Game } from './api'
import { parse } from './json'
import type { Params } from './router'

export interface ApiResponse<T> {
  body: T
  /** The server's time of the response, RFC 3339. */
  time: string
}

export class Client {
  readonly game: Game
  readonly #csrf: string
  readonly #onUnauthorized: () => void

  /** `onUnauthorized` is called when a request is answered with 401. */
  constructor(game: Game, csrf: string, onUnauthorized: () => void) {
    this.game = game
    this.#csrf = csrf
    this.#onUnauthorized = onUnauthorized
  }

  async get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<ApiResponse<T>> {
    const response = await this.request(path, params, signal)
    return { body: (await response.json()) as T, time: timeOf(response) }
  }

  /** Like `get`, but keeps the original text of every number. */
  async getExactNumbers<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<ApiResponse<T>> {
    const response = await this.request(path, params, signal)
    return { body: parse(await response.text()) as T, time: timeOf(response) }
  }

  async request(path: string, params: Params = {}, signal?: AbortSignal): Promise<Response> {
    const init = { headers: { Accept: 'application/json' }, cache: 'no-cache' as const }
    return this.#fetch(this.url(path, params), signal ? { ...init, signal } : init)
  }

  /** Asks a question that has a body. It changes nothing, so that it can be cancelled and asked again. */
  async ask<T>(path: string, body: unknown, signal?: AbortSignal): Promise<ApiResponse<T>> {
    const headers = { Accept: 'application/json', 'Content-Type': 'application/json', 'X-CSRF-Token': this.#csrf }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    const response = await this.#fetch(this.url(path), signal ? { ...init, signal } : init)
    return { body: (await response.json()) as T, time: timeOf(response) }
  }

  /** Sends a write and returns the response body, if there is one. A `body` that is a string is sent as JSON text. */
  async send<T>(method: 'PUT' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { 'X-CSRF-Token': this.#csrf }
    const init: RequestInit = { method, headers }
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json'
      init.body = typeof body === 'string' ? body : JSON.stringify(body)
    }
    const response = await this.#fetch(this.url(path), init)
    const text = await response.text()
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  url(path: string, params: Params = {}): string {
    const query = new URLSearchParams({ game: this.game.id })
    for (const [name, value] of Object.entries(params)) {
      if (value !== undefined && value !== '') query.append(name, String(value))
    }
    return `${path}?${query}`
  }

  async #fetch(url: string, init: RequestInit): Promise<Response> {
    const response = await fetch(url, init)
    if (response.ok) return response
    if (response.status === 401) this.#onUnauthorized()
    throw await problemFrom(response)
  }
}

/** Returns the sentence that is shown for an error. */
export function errorMessage(error: unknown): string {
  if (error instanceof ProblemError) return toSentence(error.message)
  return 'The server cannot be reached. Check your connection and that the server is running.'
}

/** The server's messages start in lower case and have no full stop. */
function toSentence(text: string): string {
  const capitalized = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(capitalized) ? capitalized : `${capitalized}.`
}

function timeOf(response: Response): string {
  const dateMs = Date.parse(response.headers.get('Date') ?? '')
  return new Date(Number.isNaN(dateMs) ? Date.now() : dateMs).toISOString()
}
