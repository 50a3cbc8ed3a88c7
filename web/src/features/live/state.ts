/** What the Live page knows, and how each message of the stream changes it. No clock, no browser. */
import { NOTHING_HEARD, withFailure, withoutFailure, withQuery, type Heard } from '../../stream/answer'
import type {
  AsOf,
  EndpointTotals,
  EventsChange,
  EventsSnapshot,
  Kind,
  LiveEvent,
  LoadMessage,
  Message,
  Minute,
  OnlineMessage,
  Totals,
} from '../../stream/protocol'
import { merge, windowOf, type Window } from './seconds'

/** How many of the last events are kept. */
export const EVENTS_MAX = 50

/** How many minutes of players online are kept. */
export const MINUTES_MAX = 60

export interface Online {
  asOf: AsOf
  players: number
  minutes: Minute[]
}

export interface LastEvents {
  asOf: AsOf
  /** Newest first, at most `EVENTS_MAX`. */
  events: LiveEvent[]
  /** The last ones that were not accepted, as many again: they are rarer, and what one looks for. */
  refused: LiveEvent[]
  /** How many arrived since the page was opened, listed or not. */
  arrived: number
  /** How many of those were never listed. */
  skipped: number
}

export interface Load {
  asOf: AsOf
  seconds: Window
  totals: Totals
  since: string | undefined
  reasons: Record<string, number>
  endpoints: EndpointTotals[]
}

export interface LiveState extends Heard {
  online?: Online
  events?: LastEvents
  load?: Load
}

export const NOTHING_YET: LiveState = NOTHING_HEARD

/** The state after `message`. A change to something that has no snapshot yet says nothing. */
export function reduce(state: LiveState, kind: Kind, message: Message): LiveState {
  switch (message.sub) {
    case 'online':
      return withOnline(state, kind, message)
    case 'events':
      return 'added' in message ? withAdded(state, message) : withEvents(state, message)
    case 'load':
      return 'error' in message ? withFailure(state, message) : withLoad(state, kind, message)
    default:
      return withQuery(state, kind, message)
  }
}

/** Whether nothing has ever been sent to this game, as far as the page can see. */
export function isUntouched(state: LiveState): boolean {
  return state.load?.totals.received === 0 && state.events?.events.length === 0
}

function withOnline(state: LiveState, kind: Kind, message: OnlineMessage): LiveState {
  if (kind === 'change' && !state.online) return state
  const minutes = message.minutes ?? withMinute(state.online?.minutes ?? [], message)
  const online: Online = {
    asOf: message.as_of,
    players: message.online,
    minutes: minutes.slice(-MINUTES_MAX),
  }
  return { ...state, online }
}

/** The running minute shows what is online now, so that the line moves between two snapshots. */
function withMinute(minutes: Minute[], { as_of, online }: OnlineMessage): Minute[] {
  const running = Math.floor(Date.parse(as_of.time) / 60_000) * 60_000
  const earlier = minutes.filter((minute) => Date.parse(minute.time) < running)
  return [...earlier, { time: new Date(running).toISOString(), players: online }]
}

function withEvents(state: LiveState, { as_of, events }: EventsSnapshot): LiveState {
  const { arrived, skipped } = state.events ?? { arrived: 0, skipped: 0 }
  const lists = { events: newest(events), refused: newest(events.filter(isRefused)) }
  return { ...state, events: { asOf: as_of, ...lists, arrived, skipped } }
}

function withAdded(state: LiveState, { as_of, added, skipped = 0 }: EventsChange): LiveState {
  const before = state.events
  if (!before) return state
  const known = new Set(before.events.map((event) => event.n))
  const fresh = added.filter((event) => !known.has(event.n))
  const events: LastEvents = {
    asOf: as_of,
    events: newest([...fresh, ...before.events]),
    refused: newest([...fresh.filter(isRefused), ...before.refused]),
    arrived: before.arrived + fresh.length + skipped,
    skipped: before.skipped + skipped,
  }
  return { ...state, events }
}

function isRefused(event: LiveEvent): boolean {
  return event.outcome !== 'accepted'
}

/** Each number once, newest first: a resumed stream may repeat itself. */
function newest(events: LiveEvent[]): LiveEvent[] {
  const byNumber = new Map(events.map((event) => [event.n, event]))
  return [...byNumber.values()].sort((a, b) => b.n - a.n).slice(0, EVENTS_MAX)
}

function withLoad(state: LiveState, kind: Kind, message: LoadMessage): LiveState {
  const before = kind === 'change' ? state.load : undefined
  if (kind === 'change' && !before) return state
  const next = windowOf(message.second)
  const load: Load = {
    asOf: message.as_of,
    seconds: merge(before?.seconds ?? next, next),
    totals: message.totals,
    since: message.since ?? before?.since,
    reasons: message.reasons ?? before?.reasons ?? {},
    endpoints: message.endpoints ?? before?.endpoints ?? [],
  }
  return { ...withoutFailure(state, message), load }
}
