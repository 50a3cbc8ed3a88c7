/** Query results that are kept current by changes from the stream. */
import type { FailureMessage, Message, MessageKind, QueryChange, QueryResult, QuerySnapshot, Series, SeriesKey } from './protocol'

/** A day of minutes: a result grows to this length at most. */
const TIMES_MAX = 1440

/** The server's name for the row that sums everything beyond the top rows. */
export const OTHER = '(other)'

/** The state of the queries of a stream. */
export interface QueryState {
  /** The last result of each query, in the order of the queries. */
  queries: readonly (QueryResult | undefined)[]
  /** The reason of the last failure, by subscription. */
  failures: Readonly<Record<string, string>>
}

export const NO_QUERIES: QueryState = { queries: [], failures: {} }

/** Returns the state after a result, a change (see `applyChange`) or a failure. A failure keeps the last result. */
export function applyQueryMessage<S extends QueryState>(
  state: S,
  kind: MessageKind,
  message: QuerySnapshot | QueryChange | FailureMessage,
  empty?: number | null,
): S {
  if ('error' in message) return setFailure(state, message)
  const index = Number(message.sub.slice('query'.length))
  if (!Number.isInteger(index)) return state
  const before = state.queries[index]
  const after =
    kind === 'change'
      ? before && applyChange(before, message as QueryChange, empty)
      : (message as QuerySnapshot)
  const queries = [...state.queries]
  queries[index] = after
  return { ...clearFailure(state, message), queries }
}

export function setFailure<S extends QueryState>(state: S, { sub, error }: FailureMessage): S {
  return { ...state, failures: { ...state.failures, [sub]: error } }
}

/** Removes the failure of a subscription that delivered a message again. */
export function clearFailure<S extends QueryState>(state: S, { sub }: Message): S {
  if (!(sub in state.failures)) return state
  const others = Object.entries(state.failures).filter(([failed]) => failed !== sub)
  return { ...state, failures: Object.fromEntries(others) }
}

/** Returns the reason of any failure; `undefined` if nothing failed. */
export function firstFailure({ failures }: QueryState): string | undefined {
  return Object.values(failures)[0]
}

/** Returns the result after a change. `empty` fills slots without a value: 0 for counts, `null` for gauges. */
export function applyChange(
  result: QueryResult,
  change: QueryChange,
  empty: number | null = 0,
): QueryResult {
  const next: QueryResult = {
    ...result,
    as_of: change.as_of,
    times: [...result.times],
    series: result.series.map((series) => ({ ...series, values: [...series.values] })),
  }
  for (const point of change.points ?? []) setPoint(next, point, empty)
  for (const total of change.totals ?? []) setTotal(next, total, empty)
  // An answer that came longer keeps its length.
  return withinLimit(next, Math.max(TIMES_MAX, result.times.length))
}

type SeriesId = Pick<Series, 'key' | 'name'>

function setPoint(
  result: QueryResult,
  point: SeriesId & { time: string; value: number | null },
  empty: number | null,
): void {
  const series = seriesOf(result, point, empty)
  const slot = slotOf(result, point.time, empty)
  if (slot >= 0) series.values[slot] = point.value
}

function setTotal(
  result: QueryResult,
  { total, ...of }: SeriesId & { total: number },
  empty: number | null,
): void {
  const series = seriesOf(result, of, empty)
  series.total = total
  if (result.times.length === 1) series.values[0] = total
}

function seriesOf(result: QueryResult, of: SeriesId, empty: number | null): Series {
  const found = result.series.find((series) => series.name === of.name && sameKey(series.key, of.key))
  if (found) return found
  const name = of.name === undefined ? {} : { name: of.name }
  const fresh: Series = { ...name, key: of.key, values: result.times.map(() => empty), total: 0 }
  result.series.push(fresh)
  return fresh
}

/** Returns the slot of a time, appending one if the time is after the last; -1 if the time lies between slots. */
function slotOf(result: QueryResult, time: string, empty: number | null): number {
  const at = Date.parse(time)
  const found = result.times.findIndex((known) => Date.parse(known) === at)
  if (found >= 0) return found
  const last = result.times.at(-1)
  if (last !== undefined && at < Date.parse(last)) return -1
  result.times.push(time)
  for (const series of result.series) series.values.push(empty)
  return result.times.length - 1
}

function withinLimit(result: QueryResult, max: number): QueryResult {
  const surplus = result.times.length - max
  if (surplus <= 0) return result
  return {
    ...result,
    times: result.times.slice(surplus),
    series: result.series.map((series) => ({ ...series, values: series.values.slice(surplus) })),
  }
}

function sameKey(left: SeriesKey, right: SeriesKey): boolean {
  const names = Object.keys(left)
  return names.length === Object.keys(right).length && names.every((n) => left[n] === right[n])
}

/**
 * Returns the last `count` minutes of a result per minute, ending with the current minute. Minutes that
 * the server omitted had no events.
 */
export function lastMinutes(
  result: QueryResult,
  nowMs: number,
  count: number,
): { times: number[]; values: number[] } {
  const values = new Map<number, number>()
  const series = result.series[0]?.values ?? []
  result.times.forEach((time, i) => values.set(Date.parse(time) / 60_000, series[i] ?? 0))
  const newest = Math.max(Math.floor(nowMs / 60_000), ...values.keys())
  const minutes = Array.from({ length: count }, (_, i) => newest - count + 1 + i)
  return {
    times: minutes.map((minute) => minute * 60),
    values: minutes.map((minute) => values.get(minute) ?? 0),
  }
}

export interface RankingRow {
  name: string
  total: number
  /** Share of the sum of all rows, 0 to 1. */
  share: number
}

/** Returns one row per value of `dimension`, greatest first, `(other)` last. */
export function ranking(result: QueryResult, dimension: string): RankingRow[] {
  const sum = result.series.reduce((total, series) => total + series.total, 0)
  return result.series
    .filter((series) => series.total > 0)
    .map(({ key, total }) => ({ name: key[dimension] ?? '', total, share: total / sum }))
    .sort((a, b) => Number(a.name === OTHER) - Number(b.name === OTHER) || b.total - a.total)
}

/** Returns the first `count` rows and sums the others, with those that the server summed, in one row. */
export function withOthers(rows: RankingRow[], count: number): RankingRow[] {
  const named = rows.filter(({ name }) => name !== OTHER)
  const rest = [...named.slice(count), ...rows.filter(({ name }) => name === OTHER)]
  if (rest.length === 0) return named
  const sum = (of: 'total' | 'share') => rest.reduce((sum, row) => sum + row[of], 0)
  return [...named.slice(0, count), { name: OTHER, total: sum('total'), share: sum('share') }]
}
