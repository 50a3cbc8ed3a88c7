/** The state of the Live page and how each message of the stream changes it. Uses neither clock nor browser. */
import { applyQueryMessage, clearFailure, NO_QUERIES, setFailure, type QueryState } from '../../stream/query-results'
import type {
  AsOf,
  EndpointTotals,
  EventsChange,
  EventsSnapshot,
  MessageKind,
  LiveEvent,
  LoadMessage,
  Message,
  Minute,
  OnlineMessage,
  Totals,
} from '../../stream/protocol'
import { merge, windowOf, type SecondsWindow } from './seconds'

/** The number of recent events kept. */
export const EVENTS_MAX = 50

/** The number of minutes of players online kept. */
export const MINUTES_MAX = 60

export interface OnlineState {
  asOf: AsOf
  players: number
  minutes: Minute[]
}

export interface EventsState {
  asOf: AsOf
  /** Newest first, at most `EVENTS_MAX`. */
  events: LiveEvent[]
  /** The newest events that were not accepted, also at most `EVENTS_MAX`: accepted ones would push them out. */
  rejected: LiveEvent[]
  /** The number of events since the page was opened, listed or not. */
  arrived: number
  /** The number of those that were never listed. */
  skipped: number
}

export interface LoadState {
  asOf: AsOf
  seconds: SecondsWindow
  /** Of events and samples together. */
  totals: Totals
  /** The accepted samples among them. */
  samples: number
  /** Today's events whose names have no rows of their own. */
  otherEvents: number
  since: string | undefined
  reasons: Record<string, number>
  endpoints: EndpointTotals[]
}

export interface LiveState extends QueryState {
  online?: OnlineState
  events?: EventsState
  load?: LoadState
}

export const INITIAL_STATE: LiveState = NO_QUERIES

/** Returns the state after `message`. A change that arrives before its snapshot is ignored. */
export function reduce(state: LiveState, kind: MessageKind, message: Message): LiveState {
  switch (message.sub) {
    case 'online':
      return withOnline(state, kind, message)
    case 'events':
      return 'added' in message ? withAdded(state, message) : withEvents(state, message)
    case 'load':
      return 'error' in message ? setFailure(state, message) : withLoad(state, kind, message)
    default:
      return applyQueryMessage(state, kind, message)
  }
}

/** Returns true if the game has received no events, as far as the page knows. */
export function hasNoEvents(state: LiveState): boolean {
  return state.load?.totals.received === 0 && state.events?.events.length === 0
}

function withOnline(state: LiveState, kind: MessageKind, message: OnlineMessage): LiveState {
  if (kind === 'change' && !state.online) return state
  const minutes = message.minutes ?? withMinute(state.online?.minutes ?? [], message)
  const online: OnlineState = {
    asOf: message.as_of,
    players: message.online,
    minutes: minutes.slice(-MINUTES_MAX),
  }
  return { ...state, online }
}

/** Sets the current minute to the players online now, so that the line moves between snapshots. */
function withMinute(minutes: Minute[], { as_of, online }: OnlineMessage): Minute[] {
  const currentMs = Math.floor(Date.parse(as_of.time) / 60_000) * 60_000
  const earlier = minutes.filter((minute) => Date.parse(minute.time) < currentMs)
  return [...earlier, { time: new Date(currentMs).toISOString(), players: online }]
}

function withEvents(state: LiveState, { as_of, events }: EventsSnapshot): LiveState {
  const { arrived, skipped } = state.events ?? { arrived: 0, skipped: 0 }
  const lists = { events: newest(events), rejected: newest(events.filter(isRejected)) }
  return { ...state, events: { asOf: as_of, ...lists, arrived, skipped } }
}

function withAdded(state: LiveState, { as_of, added, skipped = 0 }: EventsChange): LiveState {
  const before = state.events
  if (!before) return state
  const known = new Set(before.events.map((event) => event.n))
  const fresh = added.filter((event) => !known.has(event.n))
  const events: EventsState = {
    asOf: as_of,
    events: newest([...fresh, ...before.events]),
    rejected: newest([...fresh.filter(isRejected), ...before.rejected]),
    arrived: before.arrived + fresh.length + skipped,
    skipped: before.skipped + skipped,
  }
  return { ...state, events }
}

function isRejected(event: LiveEvent): boolean {
  return event.outcome !== 'accepted'
}

/** Removes duplicate numbers, which a resumed stream may send, and sorts newest first. */
function newest(events: LiveEvent[]): LiveEvent[] {
  const byNumber = new Map(events.map((event) => [event.n, event]))
  return [...byNumber.values()].sort((a, b) => b.n - a.n).slice(0, EVENTS_MAX)
}

function withLoad(state: LiveState, kind: MessageKind, message: LoadMessage): LiveState {
  const before = kind === 'change' ? state.load : undefined
  if (kind === 'change' && !before) return state
  const next = windowOf(message.second)
  const load: LoadState = {
    asOf: message.as_of,
    seconds: merge(before?.seconds ?? next, next),
    totals: message.totals,
    samples: message.samples ?? before?.samples ?? 0,
    otherEvents: message.other_events ?? before?.otherEvents ?? 0,
    since: message.since ?? before?.since,
    reasons: message.reasons ?? before?.reasons ?? {},
    endpoints: message.endpoints ?? before?.endpoints ?? [],
  }
  return { ...clearFailure(state, message), load }
}
