import { expect, test } from 'vitest'
import { fromLocal, toLocal } from './zone'

test('a time is converted to the local time of the zone', () => {
  expect(toLocal('2026-11-20T08:30:00.000Z', 'UTC')).toBe('2026-11-20T08:30')
  expect(toLocal('2026-11-20T08:30:15Z', 'Europe/Paris')).toBe('2026-11-20T09:30:15')
  expect(toLocal('2026-07-20T22:00:00Z', 'Asia/Kathmandu')).toBe('2026-07-21T03:45')
  expect(toLocal(undefined, 'UTC')).toBe('')
})

test('a converted time converts back', () => {
  for (const tz of ['UTC', 'Europe/Paris', 'America/Los_Angeles', 'Asia/Kathmandu', 'Pacific/Auckland']) {
    for (const iso of ['2026-03-29T00:59:00.000Z', '2026-03-29T01:00:00.000Z', '2026-10-25T03:00:00.000Z']) {
      expect(fromLocal(toLocal(iso, tz), tz), `${iso} in ${tz}`).toBe(iso)
    }
  }
})

test('an ambiguous hour is its first occurrence', () => {
  expect(fromLocal('2026-10-25T02:30', 'Europe/Paris')).toBe('2026-10-25T00:30:00.000Z')
})

test('an invalid time is undefined', () => {
  expect(fromLocal('', 'UTC')).toBeUndefined()
  expect(fromLocal('soon', 'UTC')).toBeUndefined()
})
