import { expect, test } from 'vitest'
import { clock, clockAndDay, clockMs, count, countryName, dayAndMinute, headline, minute, rate, share, tick, words } from './format'

test('counts are exact, headlines fit', () => {
  expect(count(1234567)).toBe('1,234,567')
  expect(headline(99_999)).toBe('99,999')
  expect(headline(1_234_567)).toBe('1.23M')
  expect(tick(1_500)).toBe('1.5K')
})

test('a small rate shows its tenths', () => {
  expect(rate(0.2)).toBe('0.2')
  expect(rate(12)).toBe('12.0')
  expect(rate(1234.5)).toBe('1,235')
})

test('a share that exists is not nothing', () => {
  expect(share(0)).toBe('0%')
  expect(share(0.004)).toBe('<1%')
  expect(share(0.434)).toBe('43%')
})

test('times are those of the zone asked for', () => {
  const time = '2026-11-20T23:30:05.123Z'
  expect(clock(time, 'UTC')).toBe('23:30:05')
  expect(clockMs(time, 'UTC')).toBe('23:30:05.123')
  expect(minute(time, 'Asia/Kolkata')).toBe('05:00')
  expect(dayAndMinute(time, 'Europe/Paris')).toBe('21 Nov, 00:30')
})

test('a time of another day says which', () => {
  const time = '2026-11-20T23:30:05Z'
  const at = (now: string, tz: string) => clockAndDay(time, Date.parse(now), tz)
  expect(at('2026-11-20T23:59:59Z', 'UTC')).toBe('23:30:05')
  expect(at('2026-11-21T00:00:01Z', 'UTC')).toBe('20 Nov, 23:30:05')
  expect(at('2026-11-21T12:00:00Z', 'Europe/Paris')).toBe('00:30:05')
  expect(at('2027-11-20T23:30:05Z', 'UTC')).toBe('20 Nov, 23:30:05')
})

test('a country is a name, and what is none says so', () => {
  expect(countryName('FR')).toBe('France')
  expect(countryName('')).toBe('Unknown')
  expect(countryName('ZZ')).toBe('Unknown')
  expect(countryName('(other)')).toBe('Other countries')
})

test('a reason is words', () => {
  expect(words('event_name_too_long')).toBe('event name too long')
})
