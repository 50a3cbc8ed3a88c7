/** A question about players who come back: its URL, its request and its answer. */
import { keyName } from '../../questions/answer'
import { toConditions, type Filter } from '../../questions/conditions'
import { formatPattern, parsePattern, toRequestPattern, type EventPattern } from '../../questions/event-pattern'
import { ParamReader, ParamWriter } from '../../questions/page-params'
import type { ParameterError } from '../../questions/question'
import { timeFields, type Range } from '../../questions/range'
import type { AsOf } from '../../stream/protocol'
import type { Table } from '../../table'

export const DEFAULT_RANGE = '30d'
const TOP = 6
const PERIODS_MAX = 120
/** A rate of fewer players says little. */
export const FEW_PLAYERS = 30

export type Step = 'day' | 'week' | 'month'
export type Kind = 'classic' | 'rolling' | 'bounded'
export type Unit = 'percent' | 'players'

export const STEPS = [
  ['day', 'Days'],
  ['week', 'Weeks'],
  ['month', 'Months'],
] as const
export const KINDS = [
  ['classic', 'Classic'],
  ['rolling', 'Rolling'],
  ['bounded', 'Bounded'],
] as const
export const UNITS = [
  ['percent', 'Percent'],
  ['players', 'Players'],
] as const

/** Periods that are shown as large figures, if the range has them. */
export const MILESTONES: Record<Step, readonly number[]> = { day: [1, 7, 30], week: [1, 4, 12], month: [1, 3, 6] }
const DEFAULT_PERIODS: Record<Step, number> = { day: 15, week: 9, month: 7 }
export const PERIODS: Record<Step, readonly number[]> = { day: [8, 15, 31, 61, 91], week: [5, 9, 13, 27], month: [4, 7, 13] }

export interface Retention {
  /** Absent: the event that the page chooses. */
  start: EventPattern | undefined
  /** Absent: the start event. */
  return: EventPattern | undefined
  step: Step
  /** Shown periods, the first of them included. */
  periods: number
  kind: Kind
  /** The property of the breakdown; empty for none. */
  by: string
  /** The value of the breakdown whose table is shown; absent for all players. */
  of: string | undefined
  unit: Unit
  where: Filter[]
  range: Range
}

export interface Cohort {
  /** The first day of the period, as `2026-11-20`. */
  start: string
  players: number
  /** How many came back, by period; `null` for periods after the range. */
  returned: (number | null)[]
  /** The number of periods that lie in the range as a whole. */
  complete: number
}

export interface RetentionAnswer {
  as_of: AsOf
  cohorts: Cohort[]
  series: { key: Record<string, string>; cohorts: Cohort[] }[]
}

export function parseRetention(params: URLSearchParams): { retention: Retention; errors: ParameterError[] } {
  const reader = new ParamReader(params)
  const step = reader.choice('step', ['day', 'week', 'month'], 'day')
  const retention: Retention = {
    start: reader.list('start', 1, parsePattern, '$session_start')[0],
    return: reader.list('return', 1, parsePattern, '$session_start')[0],
    step,
    periods: reader.integer('periods', 2, PERIODS_MAX, DEFAULT_PERIODS[step]),
    kind: reader.choice('kind', ['classic', 'rolling', 'bounded'], 'classic'),
    by: reader.text('by'),
    of: params.get('of') ?? undefined,
    unit: reader.choice('unit', ['percent', 'players'], 'percent'),
    where: reader.filters(),
    range: reader.range(DEFAULT_RANGE),
  }
  return { retention, errors: reader.errors }
}

export function formatRetention(question: Retention): URLSearchParams {
  const { start, step, periods, kind, by, of, unit, where, range } = question
  const writer = new ParamWriter().append('start', start ? [formatPattern(start)] : [])
  writer.append('return', question.return ? [formatPattern(question.return)] : []).set('step', step, 'day')
  writer.set('periods', periods, DEFAULT_PERIODS[step]).set('kind', kind, 'classic').set('by', by)
  return writer.append('of', of === undefined ? [] : [of]).set('unit', unit, 'percent').filters(where).range(range, DEFAULT_RANGE).params
}

/** Returns the request. It has enough periods for the milestones. */
export function retentionBody(question: Retention, start: EventPattern, tz: string, nowMs: number): Record<string, unknown> {
  const { step, periods, kind, by, where, range } = question
  return {
    start: toRequestPattern(start),
    return: toRequestPattern(question.return ?? start),
    step,
    periods: Math.max(periods, (MILESTONES[step].at(-1) ?? 0) + 1),
    kind,
    ...(by ? { by, top: TOP } : {}),
    ...(where.length > 0 ? { where: toConditions(where) } : {}),
    tz,
    ...timeFields(range, step, tz, nowMs),
  }
}

/** The share of players who came back in a period, of the players of all cohorts for which the period is over. */
export interface Mean {
  returned: number
  eligible: number
  /** `null` if the period is over for no cohort with players. */
  rate: number | null
}

/** Returns the weighted mean of each period. Cohorts of which none came back count too. */
export function meansOf(cohorts: readonly Cohort[], periods: number): Mean[] {
  return Array.from({ length: periods }, (_, period) => {
    const over = cohorts.filter(({ complete }) => complete > period)
    const eligible = over.reduce((sum, { players }) => sum + players, 0)
    const returned = over.reduce((sum, cohort) => sum + (cohort.returned[period] ?? 0), 0)
    return { returned, eligible, rate: eligible > 0 ? returned / eligible : null }
  })
}

export type Cell =
  /** The period is over. */
  | { is: 'complete'; returned: number; rate: number; isFew: boolean }
  /** The period is not over: the number can grow. */
  | { is: 'open'; returned: number; rate: number }
  /** The period has not begun, or the cohort has no players. */
  | { is: 'none' }

export function cellOf({ players, returned, complete }: Cohort, period: number): Cell {
  const count = returned[period]
  if (count == null || players === 0) return { is: 'none' }
  const rate = count / players
  return period < complete ? { is: 'complete', returned: count, rate, isFew: players < FEW_PLAYERS } : { is: 'open', returned: count, rate }
}

/** The number of periods that at least one cohort has begun. */
export function shownPeriods(cohorts: readonly Cohort[], periods: number): number {
  const begun = Math.max(0, ...cohorts.map(({ returned }) => returned.filter((count) => count !== null).length))
  return Math.min(periods, begun)
}

/** `Day 3`. */
export function periodName(step: Step, period: number): string {
  return `${{ day: 'Day', week: 'Week', month: 'Month' }[step]} ${period}`
}

/** Explains what "came back" means. */
export function kindText(kind: Kind, step: Step): string {
  if (kind === 'rolling') return `Came back in ${step} n or later.`
  if (kind === 'bounded') return `Came back in one of the ${step}s 1 to n.`
  return `Came back in ${step} n.`
}

const DAY = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', weekday: 'short', day: 'numeric', month: 'short' })
const MONTH = new Intl.DateTimeFormat('en-GB', { timeZone: 'UTC', month: 'short', year: 'numeric' })

/** `Fri 20 Nov`; cohorts are named by the first day of their period in the zone of the question. */
export function cohortName(start: string, step: Step): string {
  const at = Date.parse(`${start}T00:00Z`)
  return step === 'month' ? MONTH.format(at) : `${step === 'week' ? 'Week of ' : ''}${DAY.format(at).replace(',', '')}`
}

/** All players, or those with a value of the breakdown. */
export interface Group {
  /** Unique, unlike the name: a value can be called as the name of another, such as `Other`. */
  id: string
  name: string
  key: Record<string, string>
  /** Absent: all players. */
  value: string | undefined
  cohorts: Cohort[]
}

/** Returns all players and each value of the breakdown. */
export function groupsOf({ cohorts, series }: RetentionAnswer): [Group, ...Group[]] {
  const group = (key: Record<string, string>, name: string, cohorts: Cohort[]): Group => ({
    id: JSON.stringify(key),
    name,
    key,
    value: Object.values(key)[0],
    cohorts,
  })
  return [group({}, 'All players', cohorts), ...series.map((one) => group(one.key, keyName(one.key), one.cohorts))]
}

/** Returns the group whose table is shown: all players if the value is not in the answer. */
export function shownGroup({ of }: Retention, answer: RetentionAnswer): Group {
  const groups = groupsOf(answer)
  return groups.find(({ value }) => value === of) ?? groups[0]
}

export function retentionTable({ by }: Retention, answer: RetentionAnswer): Table {
  const groups = answer.series.length > 0 ? groupsOf(answer).slice(1) : groupsOf(answer)
  const isBroken = answer.series.length > 0
  return {
    columns: [...(isBroken ? [by] : []), 'cohort', 'period', 'players', 'returned', 'complete'],
    rows: groups.flatMap(({ name, cohorts }) =>
      cohorts.flatMap(({ start, players, returned, complete }) =>
        returned.flatMap((count, period) =>
          count === null ? [] : [[...(isBroken ? [name] : []), start, period, players, count, period < complete ? 'yes' : 'no']],
        ),
      ),
    ),
  }
}
