/**
 * What the server says on `GET /v1/watch`: one stream of server-sent events, several subscriptions
 * in it. Every message names its subscription in `sub`.
 */

/** Until where in the log a number has counted, and when that was. */
export interface AsOf {
  /** RFC 3339. */
  time: string
  position: string
}

export const OUTCOMES = ['accepted', 'duplicate', 'invalid', 'late', 'limited'] as const
export type Outcome = (typeof OUTCOMES)[number]

/** `received` is the sum of the others; the page checks it. */
export type Totals = Record<'received' | Outcome, number>

export interface LiveEvent {
  /** Its number in this stream: newer is greater. */
  n: number
  /** RFC 3339 with milliseconds. */
  time: string
  event: string
  player?: string | null
  /** ISO 3166-1 alpha-2. */
  country?: string | null
  platform?: string | null
  value?: number | null
  outcome: Outcome
  /** Why it was not accepted. */
  reason?: string | null
  /** The door it came through. */
  endpoint?: string | null
}

/** Counts of consecutive seconds, the first of them at `from`. */
export interface Seconds {
  /** RFC 3339. */
  from: string
  accepted: number[]
  refused: number[]
}

export interface Minute {
  time: string
  players: number
}

export interface OnlineMessage {
  sub: 'online'
  as_of: AsOf
  online: number
  minutes?: Minute[]
}

export interface EventsSnapshot {
  sub: 'events'
  as_of: AsOf
  /** Newest first. */
  events: LiveEvent[]
}

export interface EventsChange {
  sub: 'events'
  as_of: AsOf
  /** Newest first. */
  added: LiveEvent[]
  /** How many were not listed since the last change, because there were too many. */
  skipped?: number
}

export interface EndpointTotals extends Totals {
  endpoint: string
}

export interface LoadMessage {
  sub: 'load'
  as_of: AsOf
  second: Seconds
  totals: Totals
  /** Since when `totals` counts, RFC 3339. */
  since?: string
  /** How many were refused for which reason. */
  reasons?: Record<string, number>
  endpoints?: EndpointTotals[]
}

export type Key = Record<string, string>

export interface Series {
  /** Of a question with several metrics: which of them. */
  name?: string
  key: Key
  values: (number | null)[]
  total: number
}

export interface QueryAnswer {
  as_of: AsOf
  step: string
  tz: string
  times: string[]
  series: Series[]
}

export interface QuerySnapshot extends QueryAnswer {
  sub: `query${number}`
}

export interface QueryChange {
  sub: `query${number}`
  as_of: AsOf
  points?: { name?: string; key: Key; time: string; value: number | null }[]
  totals?: { name?: string; key: Key; total: number }[]
}

/** In the place of any of these: it could not be computed. What was told before holds as of its time. */
export interface Failure {
  sub: 'load' | `query${number}`
  as_of: AsOf
  error: string
}

export type Message =
  | OnlineMessage
  | EventsSnapshot
  | EventsChange
  | LoadMessage
  | QuerySnapshot
  | QueryChange
  | Failure

/** `reset` has the shape of a snapshot and replaces everything, as a snapshot does. */
export type Kind = 'snapshot' | 'change' | 'reset'
export const KINDS: readonly Kind[] = ['snapshot', 'change', 'reset']
