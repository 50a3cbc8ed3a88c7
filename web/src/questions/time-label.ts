/** Names buckets of time. */
import { day, dayAndMinute, minute } from '../format'
import { LOCALE } from '../locale'
import type { Step } from './range'

const months = new Map<string, Intl.DateTimeFormat>()
const weekdays = new Map<string, Intl.DateTimeFormat>()

function cached(formats: Map<string, Intl.DateTimeFormat>, tz: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  let format = formats.get(tz)
  if (!format) formats.set(tz, (format = new Intl.DateTimeFormat([...LOCALE], { timeZone: tz, ...options })))
  return format
}

/** The name of a bucket for a tooltip and a table: `Mon 17 Nov`, `17 Nov, 14:00`, `Week of 17 Nov`, `Nov 2026`. */
export function bucketName(at: number, step: Step, tz: string): string {
  const ms = at * 1000
  if (step === 'month') return cached(months, tz, { month: 'short', year: 'numeric' }).format(ms)
  if (step === 'day') return cached(weekdays, tz, { weekday: 'short', day: 'numeric', month: 'short' }).format(ms).replace(',', '')
  if (step === 'week') return `Week of ${day(ms, tz)}`
  return step === 'all' ? 'Whole range' : dayAndMinute(new Date(ms).toISOString(), tz)
}

/** The label of a tick: days for long steps, else the time, and the day at midnight. */
export function tickName(at: number, step: Step, tz: string): string {
  const ms = at * 1000
  if (step === 'month') return bucketName(at, step, tz)
  if (step !== 'minute' && step !== 'hour') return day(ms, tz)
  const time = minute(ms, tz)
  return time === '00:00' ? day(ms, tz) : time
}
