/** A query's answer that is kept current by changes, and the ways the page reads it. */
import type { Failure, Key, Kind, Message, QueryAnswer, QueryChange, QuerySnapshot, Series } from './protocol'

/** A day of minutes: what an answer may grow to before the server resets it. */
const TIMES_MAX = 1440

/** What the server calls the row of everything beyond the top. */
export const OTHER = '(other)'

/** What is known of the questions of a stream. */
export interface Heard {
  /** The last answer to each question, in their order. */
  queries: readonly (QueryAnswer | undefined)[]
  /** Why there is nothing newer, by subscription. */
  failures: Readonly<Record<string, string>>
}

export const NOTHING_HEARD: Heard = { queries: [], failures: {} }

/** What is known after an answer, a change to one (see `applyChange`) or a failure, which leaves the answer before it. */
export function withQuery<S extends Heard>(
  state: S,
  kind: Kind,
  message: QuerySnapshot | QueryChange | Failure,
  empty?: number | null,
): S {
  if ('error' in message) return withFailure(state, message)
  const index = Number(message.sub.slice('query'.length))
  if (!Number.isInteger(index)) return state
  const before = state.queries[index]
  const after =
    kind === 'change'
      ? before && applyChange(before, message as QueryChange, empty)
      : (message as QuerySnapshot)
  const queries = [...state.queries]
  queries[index] = after
  return { ...withoutFailure(state, message), queries }
}

export function withFailure<S extends Heard>(state: S, { sub, error }: Failure): S {
  return { ...state, failures: { ...state.failures, [sub]: error } }
}

/** What was told of again does not fail any more. */
export function withoutFailure<S extends Heard>(state: S, { sub }: Message): S {
  if (!(sub in state.failures)) return state
  const others = Object.entries(state.failures).filter(([failed]) => failed !== sub)
  return { ...state, failures: Object.fromEntries(others) }
}

/** Why something is not newer than it is, if something is not; one reason is enough. */
export function failureOf({ failures }: Heard): string | undefined {
  return Object.values(failures)[0]
}

/** The answer after a change. `empty` is what stands where the server named nothing: no events are 0, no gauge is unknown. */
export function applyChange(
  answer: QueryAnswer,
  change: QueryChange,
  empty: number | null = 0,
): QueryAnswer {
  const next: QueryAnswer = {
    ...answer,
    as_of: change.as_of,
    times: [...answer.times],
    series: answer.series.map((series) => ({ ...series, values: [...series.values] })),
  }
  for (const point of change.points ?? []) setPoint(next, point, empty)
  for (const total of change.totals ?? []) setTotal(next, total, empty)
  return withinLimit(next)
}

type Named = Pick<Series, 'key' | 'name'>

function setPoint(
  answer: QueryAnswer,
  point: Named & { time: string; value: number | null },
  empty: number | null,
): void {
  const series = seriesOf(answer, point, empty)
  const slot = slotOf(answer, point.time, empty)
  if (slot >= 0) series.values[slot] = point.value
}

function setTotal(
  answer: QueryAnswer,
  { total, ...of }: Named & { total: number },
  empty: number | null,
): void {
  const series = seriesOf(answer, of, empty)
  series.total = total
  if (answer.times.length === 1) series.values[0] = total
}

function seriesOf(answer: QueryAnswer, of: Named, empty: number | null): Series {
  const found = answer.series.find((series) => series.name === of.name && sameKey(series.key, of.key))
  if (found) return found
  const name = of.name === undefined ? {} : { name: of.name }
  const fresh: Series = { ...name, key: of.key, values: answer.times.map(() => empty), total: 0 }
  answer.series.push(fresh)
  return fresh
}

/** The slot of a time; a time after the last one gets a new slot, one in between has none. */
function slotOf(answer: QueryAnswer, time: string, empty: number | null): number {
  const at = Date.parse(time)
  const found = answer.times.findIndex((known) => Date.parse(known) === at)
  if (found >= 0) return found
  const last = answer.times.at(-1)
  if (last !== undefined && at < Date.parse(last)) return -1
  answer.times.push(time)
  for (const series of answer.series) series.values.push(empty)
  return answer.times.length - 1
}

function withinLimit(answer: QueryAnswer): QueryAnswer {
  const surplus = answer.times.length - TIMES_MAX
  if (surplus <= 0) return answer
  return {
    ...answer,
    times: answer.times.slice(surplus),
    series: answer.series.map((series) => ({ ...series, values: series.values.slice(surplus) })),
  }
}

function sameKey(left: Key, right: Key): boolean {
  const names = Object.keys(left)
  return names.length === Object.keys(right).length && names.every((n) => left[n] === right[n])
}

/**
 * The last `count` minutes of an answer by the minute, the running one last. Minutes the server did
 * not name had no events.
 */
export function lastMinutes(
  answer: QueryAnswer,
  nowMs: number,
  count: number,
): { times: number[]; values: number[] } {
  const values = new Map<number, number>()
  const series = answer.series[0]?.values ?? []
  answer.times.forEach((time, i) => values.set(Date.parse(time) / 60_000, series[i] ?? 0))
  const newest = Math.max(Math.floor(nowMs / 60_000), ...values.keys())
  const minutes = Array.from({ length: count }, (_, i) => newest - count + 1 + i)
  return {
    times: minutes.map((minute) => minute * 60),
    values: minutes.map((minute) => values.get(minute) ?? 0),
  }
}

export interface Row {
  name: string
  total: number
  /** Of the sum of all rows, 0 to 1. */
  share: number
}

/** One row per value of `dimension`, greatest first, the rest of them all last. */
export function ranking(answer: QueryAnswer, dimension: string): Row[] {
  const sum = answer.series.reduce((total, series) => total + series.total, 0)
  return answer.series
    .filter((series) => series.total > 0)
    .map(({ key, total }) => ({ name: key[dimension] ?? '', total, share: total / sum }))
    .sort((a, b) => Number(a.name === OTHER) - Number(b.name === OTHER) || b.total - a.total)
}
