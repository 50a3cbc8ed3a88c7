/** The words of the API as types. Names are those of the wire. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export interface Options<V extends Variables = Variables> {
  /** Where the server is, `https://play.example.org`. Empty in a page that the server itself serves. */
  url: string
  /** The game's public key. A secret key works in Node only; its calls are not signed. */
  key: string
  /** Who plays. Without it a random id is made and remembered in this browser. */
  player?: string
  /** What others see on boards. */
  name?: string
  /** The game's version; like the next four it stands on every event and chooses values of variables. */
  version?: string
  platform?: string
  /** Where the player came from. */
  source?: string
  /** ISO 3166-1 alpha-2. Left out, the server looks it up. */
  country?: string
  /** Segments of the player, for variables. */
  segment?: string[]
  /** Variables and what they are until the server has been heard once. */
  defaults?: V
  /** Sends `$session_start`, `$ping` and `$session_end`. Default: only in a page. */
  sessions?: boolean
  /** How long events are gathered before they are sent, in milliseconds. Default 5,000. */
  flush_interval_ms?: number
  /** Events that are kept while the server is away; then the oldest are lost. Default 2,000. */
  queue_events_max?: number
  /** Signs in pages over plain http, where browsers hide theirs: the one of `playmeter/sha256`. */
  sha256?: Sha256
  /** Told of everything that no call can throw: lost events, above all. Must not throw. */
  onError?: (error: Error) => void
}

export type Sha256 = (message: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>

export type Variables = Record<string, Json>

/** What an event may carry besides its name. */
export interface Details {
  /** What sums, averages and quantiles are made of. */
  value?: number
  level?: string
  /** At most 64 keys, three levels deep. */
  props?: Record<string, Json>
  /** Milliseconds since 1970. Default: now. */
  ts?: number
  source?: string
  platform?: string
  version?: string
  country?: string
}

export type Window = 'day' | 'week' | 'month' | 'season' | 'all' | '24h' | '7d' | '30d'

export interface ScoreDetails {
  /** Default: the player and the name that the client was made with. */
  player?: string
  name?: string
  /** Decides between equal scores. */
  subscore?: number
  fields?: Record<string, string>
  source?: string
  /** Of a private board. */
  code?: string
}

export interface ScoreQuery {
  window?: Window
  page?: number
  per_page?: number
  by?: 'score' | 'newest'
  /** Only rows with these values in fields that the board declares. */
  filter?: Record<string, string>
  source?: string
  /** Only these players, or those the player follows. */
  friends?: string[] | 'follows'
  /** The page with this player on it. */
  around?: string
  highest?: boolean
  season?: number
  /** RFC 3339: an earlier day, week or month. */
  at?: string
  /** Of a private board. */
  code?: string
  player?: string
}

export interface ScoreRow {
  rank: number
  player: string
  name: string
  score: number
  subscore?: number
  fields?: Record<string, string>
  source?: string
  at: string
  verified: boolean
  /** The row that `saveAndList` saved. */
  submitted?: boolean
}

export interface ScorePage {
  table: string
  window: Window
  page: number
  per_page: number
  total: number
  rows: ScoreRow[]
}

/** Of a score that waits for a moderator, the numbers may be null. */
export interface Saved {
  /** It is the player's row in some window: it was better there, or every run is kept. */
  saved: boolean
  /** The player's score in the longest window, its rank, and how much better it is than before. */
  best: number | null
  rank: number | null
  improved_by: number | null
  /** The rank in each window. */
  ranks: Partial<Record<Window, number>>
  /** The board's checks doubt it: until somebody decides, only its player sees it. */
  quarantined?: boolean
}

export interface NewLevel {
  name: string
  /** At most 3 MiB. */
  data: string
  fields?: Record<string, string>
  /** A data URL, at most 64 KiB. */
  thumb?: string
  source?: string
  state?: 'draft' | 'published'
}

export interface Level {
  id: string
  name: string
  player: string
  player_name: string
  state: string
  fields: Record<string, string>
  source?: string
  created_at: string
  votes: number
  /** The mean of its votes, 1 to 10; none yet: null. */
  rating: number | null
  /** What `popular` is ordered by: the mean, drawn to the middle as long as votes are few. */
  score: number
  starts: number
  wins: number
  retries: number
  quits: number
  flags: number
  thumb?: string
  data?: string
}

export interface LevelQuery {
  mode?: 'popular' | 'newest' | 'recent' | 'today' | 'yesterday' | '7d' | '30d' | '90d'
  filter?: Record<string, string>
  friends?: string[] | 'follows'
  player?: string
  source?: string
  from?: string
  to?: string
  /** With the levels themselves. */
  data?: boolean
  page?: number
  per_page?: number
}

export interface LevelPage {
  levels: Level[]
  total: number
  page: number
  per_page: number
}

export interface Achievement {
  key: string
  name: string
  description?: string
  points?: number
  /** When the player got it; absent: not yet. */
  granted_at?: string
  friends?: { player: string; name: string; at: string }[]
}

export interface FeedItem {
  /** `score`, `level`, `achievement`, `post`, or what the game calls its own. */
  kind: string
  at: string
  /** Everybody who did the same. */
  players: { player: string; name: string }[]
  table?: string
  score?: number
  level?: string
  achievement?: string
  text?: string
  props?: Record<string, Json>
}

export interface FeedPage {
  items: FeedItem[]
  /** Give it as `before` for what is older. */
  next?: string
}

/** What to watch: the parameters of `/v1/watch`. */
export interface Watched {
  vars?: 1
  board?: string
  window?: Window
  feed?: string
  online?: 1
}
