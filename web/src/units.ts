/** Formats measurements of hosts for display. */
import { percent as percentOf } from './format'
import { LOCALE } from './locale'

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
const digits = new Intl.NumberFormat([...LOCALE], { maximumSignificantDigits: 3 })
const tenths = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: 1 })
const whole = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: 0 })
const hundredths = new Intl.NumberFormat([...LOCALE], { maximumFractionDigits: 2 })

/** 3,072,000,000 → `3.07 GB`. */
export function bytes(value: number): string {
  const power = value < 1 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), UNITS.length - 1)
  const scaled = value / 1_000 ** power
  // 999.9 kB rounds to 1 MB.
  if (scaled >= 999.5 && power < UNITS.length - 1) return `1 ${UNITS[power + 1]}`
  return `${digits.format(power === 0 ? Math.round(scaled) : scaled)} ${UNITS[power]}`
}

/** `3.07 MB/s`. */
export function bytesPerSecond(value: number): string {
  return `${bytes(value)}/s`
}

/** 12.34 → `12.3%`. */
export function percent(value: number): string {
  return percentOf(value / 100, 1)
}

/** About three significant digits: 1.234 → `1.23`, 12.34 → `12.3`, 1234.5 → `1,235`. */
export function number(value: number): string {
  const format = value < 10 ? hundredths : value < 100 ? tenths : whole
  return format.format(value)
}

/** `12.3/s`. */
export function perSecond(value: number): string {
  return `${number(value)}/s`
}

/** `4.5 s`. */
export function seconds(value: number): string {
  return `${tenths.format(value)} s`
}
