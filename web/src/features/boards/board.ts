/** Leaderboards as returned by the server, and their descriptions. */
import { LOCALE } from '../../locale'

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
export type BoardWindow = keyof typeof WINDOWS

export const ORDERS = { desc: 'highest first', asc: 'lowest first' } as const
export const KEEPS = {
  best: 'best score per player',
  last: 'last score per player',
  sum: 'sum per player',
  all: 'every score',
} as const
export const MODES = {
  open: 'any client with the public key',
  session: 'signed player sessions',
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
  windows: BoardWindow[]
  min: number | null
  max: number | null
  decimals: number
  mode: keyof typeof MODES
  competitive: boolean
  checks: Checks
  filters: string[]
  private: boolean
  code?: string
  /** The current season; 0 if there are no seasons. */
  season: number
  players: number
}

export interface ScoreRow {
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

export interface BoardPage {
  table: string
  window: BoardWindow
  season?: number
  page: number
  per_page: number
  total: number
  rows: ScoreRow[]
}

export interface QuarantinedScore {
  id: string
  row: ScoreRow
  evidence: { failed: { check: string; detail: string }[]; session?: string; played_s?: number }
}

/** Describes a leaderboard: `highest first · best score per player · from signed player sessions`. */
export function describeBoard(board: Board): string {
  const parts = [ORDERS[board.order], KEEPS[board.keep], `from ${MODES[board.mode]}`]
  if (board.private) parts.push('private')
  return parts.join(' · ')
}

/** Returns the requested window if the leaderboard has it, otherwise the longest. */
export function selectWindow(board: Board, requested: string): BoardWindow {
  const chosen = board.windows.find((window) => window === requested)
  return chosen ?? (['all', 'season', 'month', '30d', 'week', '7d', 'day', '24h'] as const).find((window) =>
    board.windows.includes(window),
  ) ?? 'all'
}

const CHECKS: Record<string, string> = {
  session: 'No player session',
  min_play_s: 'Play time too short',
  points_per_s_max: 'Too many points per second',
  level: 'Level not won',
}

/** Returns the display name of a failed check. */
export function checkName(check: string): string {
  return CHECKS[check] ?? check
}

const formats = new Map<number, Intl.NumberFormat>()

/** Formats a score with up to the decimals of its leaderboard. */
export function score(value: number, decimals: number): string {
  let format = formats.get(decimals)
  if (!format) {
    format = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: decimals })
    formats.set(decimals, format)
  }
  return format.format(value)
}

/** Describes the fields of a row: `car red, track 3`. */
export function describeFields(row: ScoreRow): string {
  const fields = Object.entries(row.fields ?? {}).map(([name, value]) => `${name} ${value}`)
  return [...fields, ...(row.source ? [`from ${row.source}`] : [])].join(', ')
}
