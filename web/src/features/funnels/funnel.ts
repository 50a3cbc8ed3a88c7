/** A funnel, its URL, its request and its answer. */
import type { AsOf } from '../../stream/protocol'
import type { Table } from '../../table'
import { keyName } from '../../questions/answer'
import { toConditions, type Filter } from '../../questions/conditions'
import { formatPattern, parsePattern, patternName, toRequestPattern, type EventPattern } from '../../questions/event-pattern'
import { ParamReader, ParamWriter } from '../../questions/page-params'
import type { ParameterError } from '../../questions/question'
import { endsNow, lengthMs, timeFields, type Range } from '../../questions/range'

export const STEPS_MAX = 12
export const STEPS_MIN = 2
export const DEFAULT_RANGE = '30d'
const DEFAULT_WINDOW = '7d'
/** With more steps than this, bars are vertical. */
export const ROWS_MAX = 6
const TOP = 6

export const WINDOWS = [
  ['30m', '30 minutes'],
  ['1h', '1 hour'],
  ['1d', '1 day'],
  ['7d', '7 days'],
  ['14d', '14 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const

export const ORDERS = [
  ['loose', 'Other events may happen in between'],
  ['strict', 'No other step in between'],
] as const

export interface Funnel {
  steps: EventPattern[]
  /** The longest time from the first step to the last, as `7d`. */
  window: string
  order: 'loose' | 'strict'
  /** The property of the breakdown; empty for none. */
  by: string
  where: Filter[]
  range: Range
}

export interface FunnelStep {
  event: string | null
  players: number
  conversion: number | null
  median_s: number | null
  p90_s: number | null
}

export interface FunnelSeries {
  key: Record<string, string>
  steps: FunnelStep[]
}

export interface FunnelAnswer {
  as_of: AsOf
  steps: FunnelStep[]
  /** By the value at the first step; empty without a breakdown. */
  series: FunnelSeries[]
}

export function parseFunnel(params: URLSearchParams): { funnel: Funnel; errors: ParameterError[] } {
  const reader = new ParamReader(params)
  const window = reader.text('window') || DEFAULT_WINDOW
  if (!windowSeconds(window)) reader.reject('window', 'must be a duration such as 30m, 1h or 7d')
  const funnel: Funnel = {
    steps: reader.list('s', STEPS_MAX, parsePattern, 'level_start;level,=,3'),
    window: windowSeconds(window) ? window : DEFAULT_WINDOW,
    order: reader.choice('order', ['loose', 'strict'], 'loose'),
    by: reader.text('by'),
    where: reader.filters(),
    range: reader.range(DEFAULT_RANGE),
  }
  return { funnel, errors: reader.errors }
}

export function formatFunnel({ steps, window, order, by, where, range }: Funnel): URLSearchParams {
  const writer = new ParamWriter().append('s', steps.map(formatPattern)).set('window', window, DEFAULT_WINDOW)
  return writer.set('order', order, 'loose').set('by', by).filters(where).range(range, DEFAULT_RANGE).params
}

const SECONDS: Record<string, number> = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 }
const WINDOW_S_MAX = 315_576_000

/** Returns the seconds of a window; 0 if it is invalid. */
export function windowSeconds(window: string): number {
  const [, count, unit] = /^([1-9]\d{0,8})([smhdw])$/.exec(window) ?? []
  const seconds = Number(count ?? 0) * (SECONDS[unit ?? ''] ?? 0)
  return seconds <= WINDOW_S_MAX ? seconds : 0
}

/** `7 days`. */
export function windowName(window: string): string {
  return WINDOWS.find(([id]) => id === window)?.[1] ?? window
}

export function funnelBody(funnel: Funnel, tz: string, nowMs: number): Record<string, unknown> {
  const { steps, window, order, by, where, range } = funnel
  return {
    steps: steps.map(toRequestPattern),
    window_s: windowSeconds(window),
    ...(order === 'strict' ? { order } : {}),
    ...(by ? { by, top: TOP } : {}),
    ...(where.length > 0 ? { where: toConditions(where) } : {}),
    tz,
    ...timeFields(range, 'day', tz, nowMs),
  }
}

/** A step as it is shown. */
export interface Stage {
  /** Of the players of the step before; `null` for the first step, and without players. */
  rate: number | null
  /** Players of the step before who did not reach this one. */
  dropped: number
}

export function stagesOf(steps: readonly FunnelStep[]): Stage[] {
  return steps.map(({ players }, i) => {
    const before = i === 0 ? undefined : steps[i - 1]?.players
    return { rate: before ? players / before : null, dropped: before === undefined ? 0 : before - players }
  })
}

/** Returns the index of the step before which the most players drop; `undefined` if none do. */
export function largestDrop(steps: readonly FunnelStep[]): number | undefined {
  const dropped = stagesOf(steps).map((stage) => stage.dropped)
  const most = Math.max(...dropped)
  return most > 0 ? dropped.indexOf(most) : undefined
}

/** The share of players who do all steps. */
export function conversionOf(steps: readonly FunnelStep[]): number | null {
  return steps.at(-1)?.conversion ?? null
}

/**
 * Explains which players still have time to convert. `undefined` if the range is over, or if the window is a small part
 * of it.
 */
export function immatureNote({ window, range }: Funnel, tz: string, nowMs: number): string | undefined {
  const isLong = windowSeconds(window) * 1_000 * 10 > lengthMs(range, tz, nowMs)
  if (!isLong || !endsNow(range)) return undefined
  return `Players who began in the last ${windowName(window)} still have time to convert; the rates below can rise.`
}

export function funnelTable(funnel: Funnel, { steps, series }: FunnelAnswer): Table {
  const names = funnel.steps.map(patternName)
  const all = series.length > 0 ? series : [{ key: {}, steps }]
  const own = ['step', 'event', 'players', 'conversion', 'median_s', 'p90_s']
  return {
    columns: [...(series.length > 0 ? [funnel.by] : []), ...own],
    rows: all.flatMap((one) =>
      one.steps.map(({ event, players, conversion, median_s, p90_s }, i) => [
        ...(series.length > 0 ? [keyName(one.key)] : []),
        i + 1,
        names[i] ?? event,
        players,
        conversion,
        median_s,
        p90_s,
      ]),
    ),
  }
}
