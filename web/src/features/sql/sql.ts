/** The answer to a query in SQL, as rows and as a chart. */
import type { Answer } from '../../questions/answer'
import type { Cell, Table } from '../../table'

export type SqlValue = string | number | boolean | null | SqlValue[] | { [name: string]: SqlValue }

export interface SqlColumn {
  name: string
  type: string
}

/** The response of `POST /v1/sql`. */
export interface SqlResult {
  columns: SqlColumn[]
  rows: SqlValue[][]
  truncated: boolean
}

/** A value as text: lists and objects as JSON. */
export function cellOf(value: SqlValue | undefined): Cell {
  if (value === null || value === undefined) return null
  if (typeof value === 'number' || typeof value === 'string') return value
  return typeof value === 'boolean' ? String(value) : JSON.stringify(value)
}

export function tableOf({ columns, rows }: SqlResult): Table {
  return { columns: columns.map(({ name }) => name), rows: rows.map((row) => columns.map((_, i) => cellOf(row[i]))) }
}

const NUMBER = /^(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|UINTEGER|FLOAT|DOUBLE|DECIMAL.*|BIGNUM)$/
const TIME = /^(?:TIMESTAMP|DATE)/

export const isNumber = ({ type }: SqlColumn) => NUMBER.test(type)
const isTime = ({ type }: SqlColumn) => TIME.test(type)

/** Lines beyond these are not readable. */
const SERIES_MAX = 12

/** A result that can be drawn. */
export type SqlChart = { kind: 'time'; answer: Answer } | { kind: 'ranking'; answer: Answer }

/**
 * Returns a chart of a result; `undefined` if it has no numbers. A column of times makes lines, one for each column of
 * numbers; with a column of texts, one for each text. Without times, the first column of numbers is ranked by the texts.
 */
export function chartOf(result: SqlResult, asOf: string): SqlChart | undefined {
  const numbers = indices(result, isNumber)
  const [time] = indices(result, isTime)
  const [text] = indices(result, (column) => !isNumber(column) && !isTime(column))
  const [first] = numbers
  if (first === undefined || result.rows.length === 0) return undefined
  if (time !== undefined) return { kind: 'time', answer: overTime(result, time, text, numbers, asOf) }
  if (text === undefined) return undefined
  const series = result.rows.map((row, i) => seriesOf(`${cellOf(row[text]) ?? 'Not set'}`, [], numberOf(row[first]), String(i)))
  return { kind: 'ranking', answer: answerOf([], series, asOf) }
}

/** Returns true if `chartOf` has a chart, without making it. */
export function hasChart(result: SqlResult): boolean {
  return result.rows.length > 0 && result.columns.some(isNumber) && result.columns.some((column) => !isNumber(column))
}

function indices({ columns }: SqlResult, isKind: (column: SqlColumn) => boolean): number[] {
  return columns.flatMap((column, i) => (isKind(column) ? [i] : []))
}

function overTime(result: SqlResult, time: number, text: number | undefined, numbers: number[], asOf: string): Answer {
  const secondsOf = (row: SqlValue[]) => parseTime(row[time])
  const times = [...new Set(result.rows.map(secondsOf))].filter((at) => !Number.isNaN(at)).sort((a, b) => a - b)
  const slots = new Map(times.map((at, i) => [at, i]))
  const names = text === undefined ? undefined : greatest(result, text, numbers[0] ?? 0)
  const lines = new Map<string, (number | null)[]>(names?.map((name) => [name, times.map(() => null)]))
  for (const number of names ? [] : numbers.slice(0, SERIES_MAX)) lines.set(nameOf(result, number), times.map(() => null))
  for (const row of result.rows) {
    const slot = slots.get(secondsOf(row))
    if (slot === undefined) continue
    for (const number of text === undefined ? numbers : numbers.slice(0, 1)) {
      const values = lines.get(text === undefined ? nameOf(result, number) : textOf(row[text]))
      if (values) values[slot] = numberOf(row[number])
    }
  }
  const total = (values: (number | null)[]) => values.reduce<number>((sum, value) => sum + (value ?? 0), 0)
  const series = [...lines].map(([name, values]) => seriesOf(name, values, total(values), name))
  if (text !== undefined) series.sort((a, b) => (b.total ?? 0) - (a.total ?? 0))
  return answerOf(times, series, asOf)
}

const textOf = (value: SqlValue | undefined) => String(cellOf(value) ?? 'Not set')
const nameOf = ({ columns }: SqlResult, index: number) => columns[index]?.name ?? ''

/** Returns the texts with the greatest sums, as many as have lines: a result can have a text per row. */
function greatest({ rows }: SqlResult, text: number, number: number): string[] {
  const sums = new Map<string, number>()
  for (const row of rows) {
    const name = textOf(row[text])
    sums.set(name, (sums.get(name) ?? 0) + (numberOf(row[number]) ?? 0))
  }
  return [...sums].sort(([, a], [, b]) => b - a).slice(0, SERIES_MAX).map(([name]) => name)
}

/** Times without a zone are UTC. */
function parseTime(value: SqlValue | undefined): number {
  if (typeof value !== 'string') return NaN
  const text = value.length === 10 ? `${value}T00:00:00Z` : /(?:Z|[+-]\d\d:\d\d)$/.test(value) ? value : `${value}Z`
  return Date.parse(text) / 1000
}

function numberOf(value: SqlValue | undefined): number | null {
  if (value === null || value === undefined || value === '') return null
  const number = Number(value)
  return Number.isFinite(number) ? number : null
}

function seriesOf(label: string, values: (number | null)[], total: number | null, id: string): Answer['series'][number] {
  return { id, label, letter: '', key: { name: label }, isOther: false, unit: 'number', isAdditive: false, values, total }
}

function answerOf(times: number[], series: Answer['series'], asOf: string): Answer {
  const gap = times.length > 1 ? Math.min(...times.slice(1).map((at, i) => at - (times[i] ?? 0))) : 86_400
  const step = gap >= 28 * 86_400 ? 'month' : gap >= 604_800 ? 'week' : gap >= 86_400 ? 'day' : gap >= 3_600 ? 'hour' : 'minute'
  return { asOf: { time: asOf, position: '' }, step, tz: 'UTC', times, series }
}

/** Tables that every game has, with their columns; those of `events` are completed by `DESCRIBE events`. */
export const TABLES: Record<string, string[]> = {
  events: ['ts', 'ts_utc', 'event', 'id', 'player', 'session', 'value', 'country', 'platform', 'version', 'source', 'level', 'props', 'received'],
  sessions: ['session', 'player', 'started', 'ended', 'duration_s', 'events', 'country', 'platform', 'version', 'source'],
  players: ['player', 'first_seen', 'last_seen', 'events', 'sessions', 'country', 'platform', 'version'],
  scores: ['board', 'rank', 'player', 'name', 'score', 'subscore', 'ts', 'source', 'verified', 'fields'],
}

/** A name as it is written in SQL: in quotes if it has other characters than letters, digits and underscores. */
export function quoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`
}

export const SAMPLES = [
  {
    name: 'Events and players by day',
    sql: `SELECT date_trunc('day', ts_utc) AS day, count(*) AS events, count(DISTINCT player) AS players
FROM events
WHERE ts >= now() - INTERVAL 30 DAY
GROUP BY day
ORDER BY day`,
  },
  {
    name: 'Most frequent events',
    sql: `SELECT event, count(*) AS n, count(DISTINCT player) AS players
FROM events
WHERE ts >= now() - INTERVAL 7 DAY
GROUP BY event
ORDER BY n DESC
LIMIT 20`,
  },
  {
    name: 'Median length of a session by platform',
    sql: `SELECT platform, count(*) AS sessions, median(duration_s) AS median_s
FROM sessions
GROUP BY platform
ORDER BY sessions DESC`,
  },
  {
    name: 'New players by day',
    sql: `SELECT date_trunc('day', first_seen) AS day, count(*) AS new_players
FROM players
GROUP BY day
ORDER BY day`,
  },
  {
    name: 'Columns of the events',
    sql: 'DESCRIBE events',
  },
] as const
