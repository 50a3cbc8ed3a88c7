/** The errors of the client. Each has a `code`, so that checking one does not require importing its class. */

/** The base class of all errors that the client throws or reports. */
export class PlaymeterError extends Error {
  /** Machine-readable code, such as `unreachable`, `signature` or `queue_full`. */
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** No response: offline, a wrong URL, or a timeout. The same request may be sent again. */
export class Unreachable extends PlaymeterError {
  constructor(cause: unknown) {
    super('unreachable', 'no response', cause)
  }
}

/** The server rejected the request. `code` is the last segment of the problem type. */
export class Refused extends PlaymeterError {
  /** The HTTP status. */
  readonly status: number
  /** The field that caused the rejection, if the server names one. */
  readonly field: string | undefined
  /** The server's `Retry-After` in milliseconds; 0 if absent. */
  readonly retryAfterMs: number

  constructor(response: Response, problem: { type?: string; title?: string; detail?: string; field?: string }) {
    const { status } = response
    super(
      problem.type?.split('/').pop() || `http_${status}`,
      problem.detail ?? problem.title ?? status + '',
    )
    this.status = status
    this.field = problem.field
    const after = response.headers.get('retry-after') as string
    this.retryAfterMs = Math.max(0, Number(after) * 1000 || Date.parse(after) - Date.now() || 0)
  }

  /** True if the same request may succeed later. */
  get temporary(): boolean {
    return this.status === 408 || this.status === 429 || this.status >= 500
  }
}

/**
 * `queue_full`: the oldest events were dropped for newer ones. `refused`: the server rejected the whole batch; the
 * cause is its error. `invalid`: the server rejected single events; the cause is its list of results.
 */
export type LossCode = 'queue_full' | 'refused' | 'invalid'

/** Events that were lost. Reported to `onError`, never thrown. */
export class EventsLost extends PlaymeterError {
  /** The number of events. */
  readonly count: number

  constructor(code: LossCode, count: number, cause?: unknown) {
    super(code, 'events lost', cause)
    this.count = count
  }
}

/** Returns true if a retry may succeed. */
export function isRetryable(error: unknown): boolean {
  return error instanceof Refused ? error.temporary : error instanceof Unreachable
}

/** Returns the delay after the n-th consecutive failure in milliseconds: exponential, with jitter, after any `Retry-After`. */
export function backoffMs(failures: number, error?: unknown): number {
  const retryAfterMs = error instanceof Refused ? error.retryAfterMs : 0
  return retryAfterMs + Math.min(300_000, 500 * 2 ** failures) * (0.5 + Math.random() / 2)
}
