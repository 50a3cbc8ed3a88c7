/** Formats numbers, times and names for display. */
import { LOCALE } from './locale'
import { OTHER } from './stream/query-results'

const whole = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: 0 })
const tenths = new Intl.NumberFormat([...LOCALE], { minimumFractionDigits: 1, maximumFractionDigits: 1 })
/** Every English locale has `M` for a million: the British `m` would be read as a thousandth. */
const compactLocale = LOCALE[0]?.startsWith('en') ? 'en' : [...LOCALE]
const short = new Intl.NumberFormat(compactLocale, { notation: 'compact', maximumSignificantDigits: 3 })
const exact = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: 3 })
const regions = new Intl.DisplayNames(['en'], { type: 'region' })

/** 12345 → `12,345`. */
export function count(value: number): string {
  return whole.format(value)
}

/** A count for a headline: exact below 100,000, then three significant digits. */
export function headline(value: number): string {
  return value < 100_000 ? whole.format(value) : short.format(value)
}

/** An axis label: `1.5K`. */
export function tick(value: number): string {
  return value < 1_000 ? exact.format(value) : short.format(value)
}

/** A rate per second, with one decimal below 100. */
export function rate(value: number): string {
  return value < 100 ? tenths.format(value) : headline(value)
}

/** The value of an event, with up to three decimals. */
export function amount(value: number): string {
  return exact.format(value)
}

/** The value of an event where space is limited: three significant digits from 100,000 on. */
export function compactAmount(value: number): string {
  return Math.abs(value) < 100_000 ? exact.format(value) : short.format(value)
}

/** 0.434 → `43%`, without decimals. */
export function share(value: number): string {
  return percent(value, 0)
}

/** 0.1234 → `12.3%`, with at most so many decimals. A share above zero is never shown as 0%. */
export function percent(share: number, decimals: number): string {
  const least = 10 ** -(decimals + 2)
  const format = percentFormat(decimals)
  return share > 0 && share < least ? `<${format.format(least)}` : format.format(share)
}

/** `11:02:45` in the given time zone. */
export function clock(time: string | number, tz: string): string {
  return formatter(tz, { hour: '2-digit', minute: '2-digit', second: '2-digit' }).format(
    new Date(time),
  )
}

/** `11:02:45.123`. */
export function clockMs(time: string | number, tz: string): string {
  return formatter(tz, {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  }).format(new Date(time))
}

/** `11:02`. */
export function minute(time: string | number, tz: string): string {
  return formatter(tz, { hour: '2-digit', minute: '2-digit' }).format(new Date(time))
}

/** `20 Nov, 00:00`. */
export function dayAndMinute(time: string | number, tz: string): string {
  const options: Intl.DateTimeFormatOptions = {
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
  }
  return formatter(tz, options).format(new Date(time))
}

/** `11:02:45` if the time is on the same day as `nowMs`, otherwise `20 Nov, 11:02:45`. */
export function clockAndDay(time: string, nowMs: number, tz: string): string {
  const text = clock(time, tz)
  return isSameDay(Date.parse(time), nowMs, tz) ? text : `${day(time, tz)}, ${text}`
}

function isSameDay(oneMs: number, otherMs: number, tz: string): boolean {
  const date = formatter(tz, { day: 'numeric', month: 'numeric', year: 'numeric' })
  return date.format(oneMs) === date.format(otherMs)
}

/** `20 Nov`. */
export function day(time: string | number, tz: string): string {
  return formatter(tz, { day: 'numeric', month: 'short' }).format(new Date(time))
}

/** `20 Nov 2026`. */
export function date(time: string | number, tz: string): string {
  return formatter(tz, { day: 'numeric', month: 'short', year: 'numeric' }).format(new Date(time))
}

/** `20 Nov 2026, 11:02:45 UTC`, for a title. */
export function utc(time: string | number): string {
  return `${date(time, 'UTC')}, ${clock(time, 'UTC')} UTC`
}

/** `FR` → `France`; `Unknown` for anything that is not a country code. */
export function countryName(code: string): string {
  if (code === OTHER) return 'Other countries'
  if (!/^[A-Z]{2}$/.test(code) || code === 'ZZ' || code === 'XX') return 'Unknown'
  return regions.of(code) ?? code
}

/** Turns a label into words: `event_name_too_long` → `event name too long`. */
export function humanize(label: string): string {
  return label.replaceAll('_', ' ')
}

const formatters = new Map<string, Intl.DateTimeFormat>()

/** Constructing a formatter costs as much as about a hundred uses, so formatters are cached. */
function formatter(tz: string, options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  const name = `${tz} ${JSON.stringify(options)}`
  let cached = formatters.get(name)
  if (!cached) {
    cached = new Intl.DateTimeFormat([...LOCALE], { timeZone: tz, hourCycle: 'h23', ...options })
    formatters.set(name, cached)
  }
  return cached
}

const percentFormats = new Map<number, Intl.NumberFormat>()

function percentFormat(maximumFractionDigits: number): Intl.NumberFormat {
  let cached = percentFormats.get(maximumFractionDigits)
  if (!cached) {
    cached = new Intl.NumberFormat([...LOCALE], { style: 'percent', maximumFractionDigits })
    percentFormats.set(maximumFractionDigits, cached)
  }
  return cached
}
