/** Players: the search and its URL, the profile of one player, and the player's events by session. */
import { toConditions, type Filter } from '../../questions/conditions'
import { ParamReader, ParamWriter } from '../../questions/page-params'
import type { ParameterError } from '../../questions/question'
import { timeFields, type Range } from '../../questions/range'
import type { Params } from '../../router'
import type { AsOf } from '../../stream/protocol'

export const DEFAULT_RANGE = '30d'
const PAGE = 50
export const TIMELINE_PAGE = 100

/** What the page shows: a list of players, or one player. */
export interface PlayersView {
  search: string
  where: Filter[]
  range: Range
  /** The shown player; empty for the list. */
  player: string
  /** The only event that the timeline shows; empty for all. */
  event: string
}

export function parseView(params: URLSearchParams): { view: PlayersView; errors: ParameterError[] } {
  const reader = new ParamReader(params)
  const view: PlayersView = {
    search: reader.text('search'),
    where: reader.filters(),
    range: reader.range(DEFAULT_RANGE),
    player: reader.text('player'),
    event: reader.text('event'),
  }
  return { view, errors: reader.errors }
}

export function formatView({ search, where, range, player, event }: PlayersView): URLSearchParams {
  const writer = new ParamWriter().set('player', player).set('event', event).set('search', search)
  return writer.filters(where).range(range, DEFAULT_RANGE).params
}

export interface FoundPlayer {
  player: string
  first_seen: string
  last_seen: string
  events: number
  country: string
  platform: string
  version: string
}

export interface PlayerPage {
  as_of: AsOf
  found: number
  players: FoundPlayer[]
}

/** Returns the parameters of `GET /v1/players`. */
export function searchParams({ search, where, range }: PlayersView, tz: string, nowMs: number): Params {
  const text = search.trim()
  return {
    limit: PAGE,
    ...(text ? { search: text } : {}),
    ...(where.length > 0 ? { where: JSON.stringify(toConditions(where)) } : {}),
    ...timeFields(range, 'day', tz, nowMs),
  }
}

export interface PlayerProfile {
  as_of: AsOf
  player: string
  first_seen: string
  last_seen: string
  events: number
  sessions: number
  by_event: { event: string; count: number; sum: number | null }[]
  country: string
  platform: string
  version: string
  cohorts: string[]
  /** The variant of each experiment. */
  variants: Record<string, string>
  /** For each leaderboard, the pages with the player's row. */
  scores: Record<string, { window?: string; rows: { rank: number; score: number }[] }[]>
  ban: { reason?: string | null } | null
}

export interface TimelineEvent {
  ts: string
  event: string
  /** Absent if the client sent none. */
  id?: string
  session?: string
  level?: string
  value?: number
  props?: Record<string, unknown>
  [name: string]: unknown
}

export interface TimelinePage {
  as_of: AsOf
  events: TimelineEvent[]
  /** Where older events start; `null` if there are none. */
  next: string | null
}

export interface Session {
  /** Empty for events without a session. */
  session: string
  /** Newest first. */
  events: TimelineEvent[]
}

/** Groups events, newest first, by session. Events without a session are a group between others. */
export function sessionsOf(events: readonly TimelineEvent[]): Session[] {
  const sessions: Session[] = []
  for (const event of events) {
    const session = event.session ?? ''
    // Events of two sessions can overlap in time, on two devices.
    const known = session === '' ? sessions.at(-1) : sessions.find((one) => one.session === session)
    if (known?.session === session) known.events.push(event)
    else sessions.push({ session, events: [event] })
  }
  return sessions
}

/** The time from the first to the last event of a session, in seconds. */
export function lengthSeconds({ events }: Session): number {
  const [newest, oldest] = [events[0], events.at(-1)]
  return newest && oldest ? (Date.parse(newest.ts) - Date.parse(oldest.ts)) / 1_000 : 0
}

/** `level 3 · value 12.5 · sku gems`: what an event has beside what its session shows. */
export function detailsOf({ level, value, props = {} }: TimelineEvent): string {
  const own = Object.entries({ level, value, ...props }).filter(([, value]) => value !== undefined && value !== null && value !== '')
  return own.map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : String(value)}`).join(' · ')
}

export const playerPath = (player: string) => `/v1/players/${encodeURIComponent(player)}`
