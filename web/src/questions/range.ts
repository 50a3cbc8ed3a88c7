/** Ranges of time: presets that end now, and days or times in a zone. */
import { CalendarDate, parseDate, startOfMonth, startOfWeek, toCalendarDate, fromAbsolute } from '@internationalized/date'
import { LOCALE } from '../locale'
import { fromLocal } from '../zone'

/**
 * `last` is the name of a preset or a duration that ends now, such as `7d`. `from` and `to` are local days
 * (`2026-11-20`; `to` is included) or local times (`2026-11-20T09:30`; `to` is excluded) in the zone of the question.
 */
export type Range = { last: string } | { from: string; to: string }

export const PRESETS = [
  ['60m', 'Last hour'],
  ['today', 'Today'],
  ['24h', 'Last 24 hours'],
  ['yesterday', 'Yesterday'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
  ['this-month', 'This month'],
  ['last-month', 'Last month'],
  ['90d', 'Last 90 days'],
  ['365d', 'Last 12 months'],
] as const

export const STEPS = ['minute', 'hour', 'day', 'week', 'month'] as const
export type Step = (typeof STEPS)[number] | 'all'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000
const UNIT_MS: Record<string, number> = { m: MINUTE_MS, h: 3_600_000, d: DAY_MS, w: 7 * DAY_MS }
const DURATION = /^([1-9]\d{0,4})([mhdw])$/
const LOCAL = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?$/

/** Reads the parameters of a URL. `undefined` if they are invalid. */
export function parseRange(last: string | null, from: string | null, to: string | null): Range | undefined {
  if (from || to) {
    const isValid = from && to && isLocal(from) && isLocal(to) && startKey(from) < endKey(to)
    return isValid && !last ? { from, to } : undefined
  }
  if (last && !DURATION.test(last) && !PRESETS.some(([id]) => id === last)) return undefined
  return last ? { last } : undefined
}

function isLocal(text: string): boolean {
  return LOCAL.test(text) && !Number.isNaN(Date.parse(`${text.slice(0, 10)}T00:00Z`)) && !Number.isNaN(Date.parse(`${text}${text.length > 10 ? 'Z' : ''}`))
}

const startKey = (local: string) => (local.length === 10 ? `${local}T00:00` : local)
const endKey = (local: string) => (local.length === 10 ? `${local}T24:00` : local)

/** The time fields of a request. */
export type TimeFields = { last: string } | { from: string; to?: string }

/**
 * Returns the time fields of a request. `Nd` in steps of days is today and the days before it, N in all, and not a part
 * of a day more: so a comparison has the same days of the week, up to the same time of day.
 */
export function timeFields(range: Range, step: Step, tz: string, nowMs: number): TimeFields {
  if ('from' in range) return { from: dayOrTime(range.from, tz, 0), to: dayOrTime(range.to, tz, 1) }
  const [, count, unit] = DURATION.exec(range.last) ?? []
  const isCalendar = (unit === 'd' && step === 'day') || (unit === 'w' && step === 'week')
  if (count && isCalendar && Number(count) > 1) return { last: `${Number(count) - 1}${unit}` }
  if (count) return range
  const { start, end } = presetDays(range.last, tz, nowMs)
  const from = dayOrTime(start.toString(), tz, 0)
  return end ? { from, to: dayOrTime(end.toString(), tz, 1) } : { from }
}

function presetDays(preset: string, tz: string, nowMs: number): { start: CalendarDate; end?: CalendarDate } {
  const today = todayIn(tz, nowMs)
  if (preset === 'yesterday') {
    const day = today.subtract({ days: 1 })
    return { start: day, end: day }
  }
  const month = startOfMonth(today)
  if (preset === 'this-month') return { start: month }
  if (preset === 'last-month') return { start: month.subtract({ months: 1 }), end: month.subtract({ days: 1 }) }
  return { start: today }
}

export function todayIn(tz: string, nowMs: number): CalendarDate {
  return toCalendarDate(fromAbsolute(nowMs, tz))
}

/** Returns the first day of the calendar rows that show a month; weeks start on Monday. */
export function firstShownDay(day: CalendarDate): CalendarDate {
  return startOfWeek(startOfMonth(day), 'en-GB')
}

function dayOrTime(local: string, tz: string, moreDays: number): string {
  const text = local.length === 10 ? `${parseDate(local).add({ days: moreDays }).toString()}T00:00` : local
  return fromLocal(text, tz) ?? new Date(`${text}Z`).toISOString()
}

/** Returns the length of a range in milliseconds. */
export function lengthMs(range: Range, tz: string, nowMs: number): number {
  const fields = timeFields(range, 'all', tz, nowMs)
  if ('last' in fields) {
    const [, count, unit] = DURATION.exec(fields.last) ?? []
    return Number(count) * (UNIT_MS[unit ?? 'd'] ?? DAY_MS)
  }
  return (fields.to ? Date.parse(fields.to) : nowMs) - Date.parse(fields.from)
}

/** Returns the step for a chart of a range: 24 to about 100 points, and days for a week. */
export function autoStep(range: Range, tz: string, nowMs: number): Step {
  const length = lengthMs(range, tz, nowMs)
  if (length <= 3 * 3_600_000) return 'minute'
  if (length <= 3 * DAY_MS) return 'hour'
  if (length <= 100 * DAY_MS) return 'day'
  return length <= 750 * DAY_MS ? 'week' : 'month'
}

/** True if the range ends now, so that its answer changes. */
export function endsNow(range: Range): boolean {
  return 'last' in range && range.last !== 'yesterday' && range.last !== 'last-month'
}

const DAY_FORMAT = new Intl.DateTimeFormat([...LOCALE], { timeZone: 'UTC', day: 'numeric', month: 'short', year: 'numeric' })

/** `Last 7 days`, `1 Nov 2026 – 7 Nov 2026`. */
export function rangeName(range: Range): string {
  if ('last' in range) {
    const preset = PRESETS.find(([id]) => id === range.last)
    if (preset) return preset[1]
    const [, count, unit] = DURATION.exec(range.last) ?? []
    const name = { m: 'minute', h: 'hour', d: 'day', w: 'week' }[unit ?? 'd'] ?? 'day'
    return `Last ${count} ${name}${count === '1' ? '' : 's'}`
  }
  const name = (local: string) => {
    const day = DAY_FORMAT.format(Date.parse(`${local.slice(0, 10)}T00:00Z`))
    return local.length > 10 ? `${day}, ${local.slice(11)}` : day
  }
  return range.from === range.to ? name(range.from) : `${name(range.from)} – ${name(range.to)}`
}

export const COMPARE_NAMES = { '': 'No comparison', previous: 'Previous period', year: 'A year earlier' } as const
export type Compare = keyof typeof COMPARE_NAMES
