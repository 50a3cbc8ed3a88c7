/**
 * Messages of `GET /v1/watch`: a stream of server-sent events with several subscriptions. Every message
 * names its subscription in `sub`.
 */

/** The log position up to which a message counts, and the time of that position. */
export interface AsOf {
  /** RFC 3339. */
  time: string
  position: string
}

export const OUTCOMES = ['accepted', 'duplicate', 'invalid', 'late', 'limited'] as const
export type Outcome = (typeof OUTCOMES)[number]

/** `received` is the sum of the outcomes; the Live page verifies it. */
export type Totals = Record<'received' | Outcome, number>

export interface LiveEvent {
  /** Sequence number within the stream: newer events have greater numbers. */
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
  /** The endpoint that received it. */
  endpoint?: string | null
}

/** Counts of consecutive seconds, starting at `from`. */
export interface Seconds {
  /** RFC 3339. */
  from: string
  /** Events. */
  accepted: number[]
  refused: number[]
  /** Samples, which are not events. */
  samples: number[]
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
  /** The number of events since the last change that are not listed because there were too many. */
  skipped?: number
}

export interface EndpointTotals extends Totals {
  endpoint: string
}

export interface LoadMessage {
  sub: 'load'
  as_of: AsOf
  second: Seconds
  /** Of events and samples together. */
  totals: Totals
  /** The accepted samples among `totals`. */
  samples?: number
  /** The events and samples of today that count in `(other)` because their names have no rows of their own. */
  other_events?: number
  /** The start of `totals`, RFC 3339. */
  since?: string
  /** The number of events that were not accepted, by reason. */
  reasons?: Record<string, number>
  endpoints?: EndpointTotals[]
}

export type SeriesKey = Record<string, string>

export interface Series {
  /** The metric; only in the result of a query with several metrics. */
  name?: string
  key: SeriesKey
  values: (number | null)[]
  total: number
}

export interface QueryResult {
  as_of: AsOf
  step: string
  tz: string
  times: string[]
  series: Series[]
}

export interface QuerySnapshot extends QueryResult {
  sub: `query${number}`
}

export interface QueryChange {
  sub: `query${number}`
  as_of: AsOf
  points?: { name?: string; key: SeriesKey; time: string; value: number | null }[]
  totals?: { name?: string; key: SeriesKey; total: number }[]
}

/** Sent instead of any of the above if the result could not be computed. The last result stays valid as of its time. */
export interface FailureMessage {
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
  | FailureMessage

/** `reset` has the shape of a snapshot and, like a snapshot, replaces everything. */
export type MessageKind = 'snapshot' | 'change' | 'reset'
export const MESSAGE_KINDS: readonly MessageKind[] = ['snapshot', 'change', 'reset']
