import { expect, test } from 'vitest'
import { parse } from '../../json'
import type { Condition } from './definition'
import { describeAudience, describeCondition, describePeriod, shortJson, valueSource } from './describe'

const check = (condition: Partial<Condition>, expected: string) =>
  expect(describeCondition({ name: 'x', value: 'fast', ...condition }, 'UTC')).toBe(expected)

test('a condition is described by its audience and value', () => {
  check({ percent: { to: 25 }, country: ['FR'], platform: ['web'] }, '25% of players in FR on web: "fast"')
  check({}, 'all players: "fast"')
  check({ country: ['FR', 'DE', 'IT'] }, 'players in FR, DE or IT: "fast"')
  check({ platform: ['ios', 'android'], version: ['1.2'] }, 'players on iOS or Android with version 1.2: "fast"')
  check({ segment: ['whales', 'testers'] }, 'players in segment whales or testers: "fast"')
})

test('a percentage that does not start at zero shows its range, and a custom seed is named', () => {
  check({ percent: { from: 25, to: 50 } }, '25% of players (25 to 50): "fast"')
  check({ percent: { from: 0, to: 0.125, salt: 'spring' } }, '0.125% of players (seed “spring”): "fast"')
  check({ percent: { from: 0.1, to: 0.3 } }, '0.2% of players (0.1 to 0.3): "fast"')
})

test('exact numbers in a percentage are formatted like other numbers', () => {
  const condition = parse('{"name": "x", "value": 1, "percent": {"from": 0.0, "to": 50.0}}')
  expect(describeAudience(condition as unknown as Condition, 'UTC')).toBe('50% of players')
})

test('schedules are in the time zone of the game', () => {
  const times = { starts_at: '2026-11-20T08:00:00Z', ends_at: '2026-11-21T08:00:00Z' }
  check(times, 'players from 20 Nov, 08:00 until 21 Nov, 08:00: "fast"')
  expect(describePeriod(times, 'Europe/Paris')).toBe('from 20 Nov, 09:00 until 21 Nov, 09:00')
  expect(describePeriod({}, 'UTC')).toBe('')
})

test('a long value is cut and a number keeps its digits', () => {
  expect(shortJson('x'.repeat(100), 10)).toBe('"xxxxxxxx…')
  expect(shortJson(parse('1.0'))).toBe('1.0')
})

test('a value that is not the default one has a source', () => {
  const definition = { value: 1, default: 0, conditions: [{ name: 'fast', value: 2 }] }
  expect([1, 2, 0].map((value) => valueSource(definition, value))).toEqual(['', 'fast', 'fallback'])
})
