import { expect, test } from 'vitest'
import { autoStep, lengthMs, parseRange, rangeName, timeFields } from './range'

const NOW = Date.parse('2026-11-23T00:30:00Z')

test('presets, durations, days and times are read from the URL', () => {
  expect(parseRange('7d', null, null)).toEqual({ last: '7d' })
  expect(parseRange('today', null, null)).toEqual({ last: 'today' })
  expect(parseRange(null, '2026-11-01', '2026-11-01')).toEqual({ from: '2026-11-01', to: '2026-11-01' })
  expect(parseRange(null, '2026-11-01T10:00', '2026-11-01T11:30')).toEqual({ from: '2026-11-01T10:00', to: '2026-11-01T11:30' })
})

test('an invalid range is rejected', () => {
  for (const [last, from, to] of [
    ['7x', null, null],
    ['0d', null, null],
    [null, '2026-11-01', null],
    [null, '2026-11-02', '2026-11-01'],
    [null, '2026-13-01', '2026-13-02'],
    [null, '2026-11-01T10:00', '2026-11-01T10:00'],
    ['7d', '2026-11-01', '2026-11-02'],
  ] as const) {
    expect(parseRange(last, from, to)).toBeUndefined()
  }
})

test('seven days in steps of days are today and the six days before', () => {
  expect(timeFields({ last: '7d' }, 'day', 'UTC', NOW)).toEqual({ last: '6d' })
  expect(timeFields({ last: '7d' }, 'hour', 'UTC', NOW)).toEqual({ last: '7d' })
})

test('days begin at midnight in the zone, and the last day is included', () => {
  expect(timeFields({ from: '2026-03-28', to: '2026-03-29' }, 'day', 'Europe/Paris', NOW)).toEqual({
    from: '2026-03-27T23:00:00.000Z',
    to: '2026-03-29T22:00:00.000Z',
  })
  expect(timeFields({ last: 'today' }, 'hour', 'Europe/Paris', NOW)).toEqual({ from: '2026-11-22T23:00:00.000Z' })
  expect(timeFields({ last: 'yesterday' }, 'hour', 'UTC', NOW)).toEqual({
    from: '2026-11-22T00:00:00.000Z',
    to: '2026-11-23T00:00:00.000Z',
  })
  expect(timeFields({ last: 'last-month' }, 'day', 'UTC', NOW)).toEqual({
    from: '2026-10-01T00:00:00.000Z',
    to: '2026-11-01T00:00:00.000Z',
  })
})

test('the step follows the length of the range', () => {
  const step = (last: string) => autoStep({ last }, 'UTC', NOW)
  expect([step('60m'), step('24h'), step('7d'), step('90d'), step('365d')]).toEqual(['minute', 'hour', 'day', 'day', 'week'])
  expect(lengthMs({ from: '2026-11-01', to: '2026-11-02' }, 'UTC', NOW)).toBe(2 * 86_400_000)
})

test('a range is named', () => {
  expect(rangeName({ last: '7d' })).toBe('Last 7 days')
  expect(rangeName({ last: '2w' })).toBe('Last 2 weeks')
  expect(rangeName({ from: '2026-11-01', to: '2026-11-07' })).toBe('1 Nov 2026 – 7 Nov 2026')
})
