import { expect, test } from 'vitest'
import { fromLocal, toLocal } from './zone'

test('a time is shown as the zone’s clocks show it', () => {
  expect(toLocal('2026-11-20T08:30:00.000Z', 'UTC')).toBe('2026-11-20T08:30')
  expect(toLocal('2026-11-20T08:30:15Z', 'Europe/Paris')).toBe('2026-11-20T09:30:15')
  expect(toLocal('2026-07-20T22:00:00Z', 'Asia/Kathmandu')).toBe('2026-07-21T03:45')
  expect(toLocal(undefined, 'UTC')).toBe('')
})

test('what was shown is understood', () => {
  for (const tz of ['UTC', 'Europe/Paris', 'America/Los_Angeles', 'Asia/Kathmandu', 'Pacific/Auckland']) {
    for (const iso of ['2026-03-29T00:59:00.000Z', '2026-03-29T01:00:00.000Z', '2026-10-25T03:00:00.000Z']) {
      expect(fromLocal(toLocal(iso, tz), tz), `${iso} in ${tz}`).toBe(iso)
    }
  }
})

test('an hour that is there twice is its first', () => {
  expect(fromLocal('2026-10-25T02:30', 'Europe/Paris')).toBe('2026-10-25T00:30:00.000Z')
})

test('what is no time is nothing', () => {
  expect(fromLocal('', 'UTC')).toBeUndefined()
  expect(fromLocal('soon', 'UTC')).toBeUndefined()
})
