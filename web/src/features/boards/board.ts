/** Boards as the server gives and takes them, and what they are in words. */

export const WINDOWS = {
  day: 'Today',
  week: 'This week',
  month: 'This month',
  season: 'Season',
  all: 'All time',
  '24h': '24 hours',
  '7d': '7 days',
  '30d': '30 days',
} as const
export type Window = keyof typeof WINDOWS

export const ORDERS = { desc: 'highest first', asc: 'lowest first' } as const
export const KEEPS = {
  best: 'best of each player',
  last: 'last of each player',
  sum: 'sum of each player',
  all: 'every score',
} as const
export const MODES = {
  open: 'anybody with the public key',
  session: 'players, signed',
  server: 'servers with a secret key',
} as const

export interface Checks {
  min_play_s?: number
  points_per_s_max?: number
  level?: string
}

export interface Board {
  table: string
  title: string
  order: keyof typeof ORDERS
  keep: keyof typeof KEEPS
  windows: Window[]
  min: number | null
  max: number | null
  decimals: number
  mode: keyof typeof MODES
  competitive: boolean
  checks: Checks
  filters: string[]
  private: boolean
  code?: string
  /** The season that is not closed; 0: there is none. */
  season: number
  players: number
}

export interface Row {
  rank: number
  player: string
  name: string
  score: number
  subscore?: number
  fields?: Record<string, string>
  source?: string
  /** RFC 3339. */
  at: string
  verified: boolean
}

export interface Leaf {
  table: string
  window: Window
  season?: number
  page: number
  per_page: number
  total: number
  rows: Row[]
}

export interface Held {
  id: string
  row: Row
  evidence: { failed: { check: string; detail: string }[]; session?: string; played_s?: number }
}

/** `highest first, best of each player, from players, signed`. */
export function inWords(board: Board): string {
  const parts = [ORDERS[board.order], KEEPS[board.keep], `from ${MODES[board.mode]}`]
  if (board.private) parts.push('private')
  return parts.join(' · ')
}

/** The window that is shown when none is asked for: the longest. */
export function windowOf(board: Board, asked: string): Window {
  const chosen = board.windows.find((window) => window === asked)
  return chosen ?? (['all', 'season', 'month', '30d', 'week', '7d', 'day', '24h'] as const).find((window) =>
    board.windows.includes(window),
  ) ?? 'all'
}

const CHECKS: Record<string, string> = {
  session: 'No session',
  min_play_s: 'Played too briefly',
  points_per_s_max: 'Too many points a second',
  level: 'Level not won',
}

/** What a check that failed found. */
export function checkName(check: string): string {
  return CHECKS[check] ?? check
}

const formats = new Map<number, Intl.NumberFormat>()

/** A score with as many decimals as its board has. */
export function score(value: number, decimals: number): string {
  let format = formats.get(decimals)
  if (!format) {
    format = new Intl.NumberFormat('en', { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
    formats.set(decimals, format)
  }
  return format.format(value)
}

/** A row's fields: `car red, track 3`. */
export function fieldsInWords(row: Row): string {
  const fields = Object.entries(row.fields ?? {}).map(([name, value]) => `${name} ${value}`)
  return [...fields, ...(row.source ? [`from ${row.source}`] : [])].join(', ')
}
