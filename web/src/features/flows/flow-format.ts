/** Formats quality metrics of flows for display. */
import { percent } from '../../format'
import { LOCALE } from '../../locale'

const two = new Intl.NumberFormat([...LOCALE], { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const digits = new Intl.NumberFormat([...LOCALE], { maximumSignificantDigits: 3 })

/** `4.38`. */
export function mos(value: number): string {
  return two.format(value)
}

/** 0.0213 → `2.13%`. Small losses matter: a loss above zero is never shown as 0%. */
export function loss(share: number): string {
  return percent(share, share < 0.1 ? 2 : 1)
}

/** `12.3 ms`; a dash if unknown. */
export function ms(value: number | null | undefined): string {
  return value == null ? '–' : `${digits.format(value)} ms`
}

/** `1 h 02 min`, `4 min 05 s`, `12 s`. */
export function duration(seconds: number): string {
  const whole = Math.floor(seconds)
  const padded = (value: number) => String(value).padStart(2, '0')
  if (whole >= 3600) return `${Math.floor(whole / 3600)} h ${padded(Math.floor((whole % 3600) / 60))} min`
  if (whole >= 60) return `${Math.floor(whole / 60)} min ${padded(whole % 60)} s`
  return `${whole} s`
}
