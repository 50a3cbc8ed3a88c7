/** The calls about one game, as the person who is signed in. */
import { Problem, problem, type Game } from './api'
import { parse } from './json'
import type { Params } from './router'

/** An answer, and when it was given. */
export interface Answer<T> {
  body: T
  /** RFC 3339. */
  time: string
}

export class Client {
  readonly game: Game
  readonly #csrf: string
  readonly #refused: () => void

  /** `refused` is told when the server says that nobody is signed in. */
  constructor(game: Game, csrf: string, refused: () => void) {
    this.game = game
    this.#csrf = csrf
    this.#refused = refused
  }

  async get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<Answer<T>> {
    const answer = await this.ask(path, params, signal)
    return { body: (await answer.json()) as T, time: timeOf(answer) }
  }

  /** The same with every number as it is written. */
  async getExact<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<Answer<T>> {
    const answer = await this.ask(path, params, signal)
    return { body: parse(await answer.text()) as T, time: timeOf(answer) }
  }

  async ask(path: string, params: Params = {}, signal?: AbortSignal): Promise<Response> {
    const asked = { headers: { Accept: 'application/json' }, cache: 'no-cache' as const }
    return this.#fetch(this.url(path, params), signal ? { ...asked, signal } : asked)
  }

  /** Writes; `body` may be JSON already. The answer's body, where it has one. */
  async send<T>(method: 'PUT' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<T> {
    const headers: Record<string, string> = { 'X-CSRF-Token': this.#csrf }
    const asked: RequestInit = { method, headers }
    if (body !== undefined) {
      headers['Content-Type'] = 'application/json'
      asked.body = typeof body === 'string' ? body : JSON.stringify(body)
    }
    const answer = await this.#fetch(this.url(path), asked)
    const text = await answer.text()
    return (text === '' ? undefined : JSON.parse(text)) as T
  }

  url(path: string, params: Params = {}): string {
    const query = new URLSearchParams({ game: this.game.id })
    for (const [name, value] of Object.entries(params)) {
      if (value !== undefined && value !== '') query.append(name, String(value))
    }
    return `${path}?${query}`
  }

  async #fetch(url: string, asked: RequestInit): Promise<Response> {
    const answer = await fetch(url, asked)
    if (answer.ok) return answer
    if (answer.status === 401) this.#refused()
    throw await problem(answer)
  }
}

/** What went wrong, for a person. */
export function sentence(error: unknown): string {
  if (error instanceof Problem) return capital(error.message)
  return 'The server does not answer. Is it running, and are you online?'
}

function capital(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(first) ? first : `${first}.`
}

function timeOf(answer: Response): string {
  const said = Date.parse(answer.headers.get('Date') ?? '')
  return new Date(Number.isNaN(said) ? Date.now() : said).toISOString()
}
