/** The answer to the current question: asked once per request, cancelled when the question changes, kept current if possible. */
import type { Client } from '../client'
import { StreamConnection } from '../stream/connection'
import type { FailureMessage, QueryChange, QuerySnapshot } from '../stream/protocol'
import { applyQueryMessage, NO_QUERIES } from '../stream/query-results'
import type { Answer } from './answer'
import { combine, sentBody, type ApiAnswer, type Plan } from './plan'

/** The part of a response that every question has. */
export interface Request {
  path: string
  body: unknown
}

/**
 * The responses to some requests. `ask` is called whenever the question may have changed; equal requests are not sent
 * again. The old result stays until the new one is there.
 */
export class LiveAnswer<T> {
  result = $state.raw<T>()
  error = $state.raw<unknown>()
  isLoading = $state(false)
  /** When the current requests were sent, in the browser's time. */
  sinceMs = $state(0)
  /** True if the user cancelled: `refresh` asks again. */
  isCancelled = $state(false)

  readonly #client: Client
  #canonical = ''
  #again: (() => void) | undefined
  #pending: AbortController | undefined
  #stop: (() => void) | undefined
  /** Follows the last responses again. */
  #resume: (() => () => void) | undefined

  constructor(client: Client) {
    this.#client = client
  }

  /**
   * Sends the requests and sets `result` to what `read` makes of the responses and the server's time of the last. `follow` is called with the responses
   * and keeps the result current; it returns a function that stops it.
   */
  ask<R>(requests: readonly Request[], read: (responses: R[], time: string) => T, follow?: (responses: R[], set: (result: T) => void) => () => void): void {
    const canonical = JSON.stringify(requests)
    if (canonical === this.#canonical) return
    this.#canonical = canonical
    this.#resume = undefined
    this.#again = () => void this.#send(requests, read, follow)
    this.#again()
  }

  async #send<R>(requests: readonly Request[], read: (responses: R[], time: string) => T, follow?: (responses: R[], set: (result: T) => void) => () => void): Promise<void> {
    this.#abort()
    const pending = (this.#pending = new AbortController())
    this.isLoading = true
    this.isCancelled = false
    this.sinceMs = Date.now()
    try {
      const responses: R[] = []
      let time = ''
      // One after another: a game may run only a few questions at once.
      for (const { path, body } of requests) {
        const response = await this.#client.ask<R>(path, body, pending.signal)
        responses.push(response.body)
        time = response.time
      }
      if (pending.signal.aborted) return
      this.result = read(responses, time)
      this.error = undefined
      const set = (result: T) => ([this.result, this.error] = [result, undefined])
      this.#resume = follow && (() => follow(responses, set))
      this.#stop = this.#resume?.()
    } catch (error) {
      if (!pending.signal.aborted) {
        this.error = error
        this.#stop = this.#resume?.()
      }
    } finally {
      if (this.#pending === pending) {
        this.#pending = undefined
        this.isLoading = false
      }
    }
  }

  /** Asks the same question again. */
  refresh(): void {
    this.#again?.()
  }

  cancel(): void {
    this.#abort()
    this.isLoading = false
    this.isCancelled = true
  }

  /** Shows an error of the question itself, and cancels what is pending. `refresh` calls `retry`: it does not ask the old question. */
  fail(error: unknown, retry?: () => void): void {
    this.#abort()
    this.#canonical = ''
    this.#resume = undefined
    this.#again = retry
    ;[this.error, this.isLoading] = [error, false]
  }

  close(): void {
    this.#abort()
    this.#canonical = ''
  }

  #abort(): void {
    this.#pending?.abort()
    this.#pending = undefined
    this.#stop?.()
    this.#stop = undefined
  }
}

/** A query in a URL longer than this is not streamed: proxies cut long URLs. */
const STREAM_URL_MAX = 6_000
const MIN_INTERVAL_MS = 2_000
const REFRESH_MS = 60_000

/** Asks a planned question about metrics, and keeps the answer current while the page is visible. */
export function askPlan(answer: LiveAnswer<Answer>, client: Client, plan: Plan, checkSignedIn: () => Promise<boolean>): void {
  const requests = plan.requests.map((request) => ({ path: request.path, body: sentBody(request) }))
  answer.ask<ApiAnswer>(requests, (responses) => combine(plan, responses), (_, set) => {
    const [only] = requests
    const params = new URLSearchParams({ min_interval: String(MIN_INTERVAL_MS), query: JSON.stringify(only?.body) })
    const url = `${client.url('/v1/watch')}&${params}`
    if (plan.isLive && url.length <= STREAM_URL_MAX) return whileVisible(() => stream(url, plan, set, checkSignedIn))
    const isRollup = plan.requests.every(({ path }) => path === '/v1/query')
    return plan.endsNow && isRollup ? poll(answer) : () => undefined
  })
}

function stream(url: string, plan: Plan, set: (answer: Answer) => void, checkSignedIn: () => Promise<boolean>): () => void {
  let state = NO_QUERIES
  // A bucket without events counts 0, but has no mean.
  const empty = plan.outputs.every(({ hasZero }) => hasZero) ? 0 : null
  const connection = new StreamConnection<QuerySnapshot | QueryChange | FailureMessage>(url, {
    message(kind, message) {
      state = applyQueryMessage(state, kind, message, empty)
      const [result] = state.queries
      if (result) set(combine(plan, [result]))
    },
    status: () => undefined,
    rejected: checkSignedIn,
  })
  return () => connection.close()
}

/** Runs `start` while the page is visible, and again whenever it becomes visible. */
function whileVisible(start: () => () => void): () => void {
  let stop: (() => void) | undefined
  const update = () => {
    const isVisible = document.visibilityState === 'visible'
    if (isVisible) stop ??= start()
    else {
      stop?.()
      stop = undefined
    }
  }
  update()
  document.addEventListener('visibilitychange', update)
  return () => {
    document.removeEventListener('visibilitychange', update)
    stop?.()
  }
}

function poll<T>(answer: LiveAnswer<T>): () => void {
  const timer = setInterval(() => document.visibilityState === 'visible' && answer.refresh(), REFRESH_MS)
  return () => clearInterval(timer)
}
