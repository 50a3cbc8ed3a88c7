/** What can go wrong. Each is a class, and each has a `code` for those who do not import the classes. */

/** Everything this library throws or reports. */
export class PlaymeterError extends Error {
  /** A word for programs: `unreachable`, `signature`, `queue_full`... */
  readonly code: string

  constructor(code: string, message: string, cause?: unknown) {
    super(message, { cause })
    this.code = code
  }
}

/** No answer came: offline, a wrong address, or a time-out. The same request may be sent again. */
export class Unreachable extends PlaymeterError {
  constructor(cause: unknown) {
    super('unreachable', 'the server did not answer', cause)
  }
}

/** The server answered, and the answer was no. `code` is the last word of the problem's type. */
export class Refused extends PlaymeterError {
  /** The HTTP status. */
  readonly status: number
  /** The field the server complains of, where it names one. */
  readonly field: string | undefined
  /** How long the server asks to be left alone, in milliseconds; 0 when it does not say. */
  readonly retryAfterMs: number

  constructor(answer: Response, problem: { type?: string; title?: string; detail?: string; field?: string }) {
    const { status } = answer
    super(
      problem.type?.split('/').pop() || `http_${status}`,
      problem.detail ?? problem.title ?? `status ${status}`,
    )
    this.status = status
    this.field = problem.field
    const after = answer.headers.get('retry-after')
    this.retryAfterMs = Math.max(0, (after ? Number(after) * 1000 || Date.parse(after) - Date.now() : 0) || 0)
  }

  /** Whether the same request may succeed later. */
  get temporary(): boolean {
    return this.status === 408 || this.status === 429 || this.status >= 500
  }
}

/**
 * `queue_full`: the oldest gave way to newer ones; `refused`: the server refused their batch (the cause
 * says why); `invalid`: these events only (the cause is the server's list).
 */
export type Loss = 'queue_full' | 'refused' | 'invalid'

/** Events that will never arrive. Given to `onError`, never thrown. */
export class EventsLost extends PlaymeterError {
  /** How many. */
  readonly count: number

  constructor(code: Loss, count: number, cause?: unknown) {
    super(code, `${count} events lost`, cause)
    this.count = count
  }
}

/** Whether trying again may help. */
export function mayRetry(failure: unknown): boolean {
  return failure instanceof Refused ? failure.temporary : failure instanceof Unreachable
}

/** How long to wait after the n-th failure in a row, in milliseconds: grows, is jittered, and honours the server's wish. */
export function backOffMs(failures: number, failure?: unknown): number {
  const asked = failure instanceof Refused ? failure.retryAfterMs : 0
  return asked + Math.min(300_000, 500 * 2 ** failures) * (0.5 + Math.random() / 2)
}
