import { expect, test } from 'vitest'
import { clock, clockAndDay, clockMs, count, countryName, dayAndMinute, headline, humanize, minute, rate, share, tick } from './format'

test('counts are exact, headlines and axis labels are compact', () => {
  expect(count(1234567)).toBe('1,234,567')
  expect(headline(99_999)).toBe('99,999')
  expect(headline(1_234_567)).toBe('1.23M')
  expect(tick(1_500)).toBe('1.5K')
})

test('a rate below 100 has one decimal', () => {
  expect(rate(0.2)).toBe('0.2')
  expect(rate(12)).toBe('12.0')
  expect(rate(1234.5)).toBe('1,235')
})

test('a share above zero is never shown as 0%', () => {
  expect(share(0)).toBe('0%')
  expect(share(0.004)).toBe('<1%')
  expect(share(0.434)).toBe('43%')
})

test('times are formatted in the given zone', () => {
  const time = '2026-11-20T23:30:05.123Z'
  expect(clock(time, 'UTC')).toBe('23:30:05')
  expect(clockMs(time, 'UTC')).toBe('23:30:05.123')
  expect(minute(time, 'Asia/Kolkata')).toBe('05:00')
  expect(dayAndMinute(time, 'Europe/Paris')).toBe('21 Nov, 00:30')
})

test('a time on another day includes the date', () => {
  const time = '2026-11-20T23:30:05Z'
  const at = (now: string, tz: string) => clockAndDay(time, Date.parse(now), tz)
  expect(at('2026-11-20T23:59:59Z', 'UTC')).toBe('23:30:05')
  expect(at('2026-11-21T00:00:01Z', 'UTC')).toBe('20 Nov, 23:30:05')
  expect(at('2026-11-21T12:00:00Z', 'Europe/Paris')).toBe('00:30:05')
  expect(at('2027-11-20T23:30:05Z', 'UTC')).toBe('20 Nov, 23:30:05')
})

test('a country code becomes a name, anything else Unknown', () => {
  expect(countryName('FR')).toBe('France')
  expect(countryName('')).toBe('Unknown')
  expect(countryName('ZZ')).toBe('Unknown')
  expect(countryName('(other)')).toBe('Other countries')
})

test('a label becomes words', () => {
  expect(humanize('event_name_too_long')).toBe('event name too long')
})
