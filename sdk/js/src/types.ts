/** The types of the API. Names are those of the wire format. */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

export interface Options<V extends Variables = Variables> {
  /** URL of the server, such as `https://play.example.org`. Empty for a page that the server itself serves. */
  url: string
  /** The game's public key. A secret key works in Node only; its requests are not signed. */
  key: string
  /** Player id. Default: a random id that is stored in the browser. */
  player?: string
  /** Name shown on leaderboards. */
  name?: string
  /** Version of the game. This and the next four options are sent with every event and select values of variables. */
  version?: string
  platform?: string
  /** Acquisition source of the player. */
  source?: string
  /** ISO 3166-1 alpha-2. Default: determined by the server from the IP address. */
  country?: string
  /** Segments of the player, for variables. */
  segment?: string[]
  /** Variables with their values until the server's values are known. */
  defaults?: V
  /** Sends `$session_start`, `$ping` and `$session_end`. Default: true in a page, false in Node. */
  sessions?: boolean
  /** How long events are collected before they are sent, in milliseconds. Default: 5,000. */
  flush_interval_ms?: number
  /** Maximum number of queued events; beyond it the oldest are lost. Default: 2,000. */
  queue_events_max?: number
  /** SHA-256 for pages over plain HTTP, where browsers disable WebCrypto: import it from `playmeter/sha256`. */
  sha256?: Sha256
  /** Called with errors that no call can throw, such as lost events. Must not throw. */
  onError?: (error: Error) => void
}

export type Sha256 = (message: Uint8Array<ArrayBuffer>) => Uint8Array | Promise<Uint8Array>

export type Variables = Record<string, Json>

/** Optional properties of an event. */
export interface Details {
  /** Numeric value, for sums, averages and quantiles. */
  value?: number
  level?: string
  /** At most 64 keys, three levels deep. */
  props?: Record<string, Json>
  /** Time of the event, milliseconds since 1970. Default: now. */
  ts?: number
  source?: string
  platform?: string
  version?: string
  country?: string
}

export type Window = 'day' | 'week' | 'month' | 'season' | 'all' | '24h' | '7d' | '30d'

export interface ScoreDetails {
  /** Default: the player and name of the client. */
  player?: string
  name?: string
  /** Breaks ties between equal scores. */
  subscore?: number
  fields?: Record<string, string>
  source?: string
  /** Access code of a private leaderboard. */
  code?: string
}

export interface ScoreQuery {
  window?: Window
  page?: number
  per_page?: number
  by?: 'score' | 'newest'
  /** Only rows with these values in the filter fields of the leaderboard. */
  filter?: Record<string, string>
  source?: string
  /** Only these players, or `follows`: those the player follows. */
  friends?: string[] | 'follows'
  /** The page that contains this player. */
  around?: string
  highest?: boolean
  season?: number
  /** RFC 3339: an earlier day, week or month. */
  at?: string
  /** Access code of a private leaderboard. */
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

/** The result of a submitted score. The numbers may be null if the score is quarantined. */
export interface Saved {
  /** True if the score is on the leaderboard in some window: it improved the player's score, or every score is kept. */
  saved: boolean
  /** The player's score in the longest window, its rank, and the improvement over the previous score. */
  best: number | null
  rank: number | null
  improved_by: number | null
  /** The rank in each window. */
  ranks: Partial<Record<Window, number>>
  /** True if the score failed a check. Until a moderator accepts it, it is visible only to its player. */
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
  /** The average of the votes, 1 to 10; null without votes. */
  rating: number | null
  /** The weighted rating that `popular` is sorted by: with few votes it stays close to the middle. */
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
  /** Includes the data of the levels. */
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
  /** The time of the grant, RFC 3339; absent if the player does not have it. */
  granted_at?: string
  friends?: { player: string; name: string; at: string }[]
}

export interface FeedItem {
  /** `score`, `level`, `achievement`, `post`, or a kind of the game's own. */
  kind: string
  at: string
  /** All players with the same activity. */
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
  /** Pass it as `before` to get older items. */
  next?: string
}

/** The parameters of `/v1/watch`. */
export interface Watched {
  vars?: 1
  board?: string
  window?: Window
  feed?: string
  online?: 1
}
