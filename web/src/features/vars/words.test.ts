import { expect, test } from 'vitest'
import { parse } from '../../json'
import type { Condition } from './definition'
import { audience, kind, sentenceOf, short, whence, window } from './words'

const check = (condition: Partial<Condition>, expected: string) =>
  expect(sentenceOf({ name: 'x', value: 'fast', ...condition }, 'UTC')).toBe(expected)

test('a condition is a sentence', () => {
  check({ percent: { to: 25 }, country: ['FR'], platform: ['web'] }, '25 % of players in FR on web: "fast"')
  check({}, 'all players: "fast"')
  check({ country: ['FR', 'DE', 'IT'] }, 'players in FR, DE or IT: "fast"')
  check({ platform: ['ios', 'android'], version: ['1.2'] }, 'players on iOS or Android with version 1.2: "fast"')
  check({ segment: ['whales', 'testers'] }, 'players in segment whales or testers: "fast"')
})

test('a share that does not begin at the first player says where it lies, and by which order', () => {
  check({ percent: { from: 25, to: 50 } }, '25 % of players (25 to 50): "fast"')
  check({ percent: { from: 0, to: 0.125, salt: 'spring' } }, '0.125 % of players by “spring”: "fast"')
  check({ percent: { from: 0.1, to: 0.3 } }, '0.2 % of players (0.1 to 0.3): "fast"')
})

test('a share whose digits came as they were written is the same share', () => {
  const condition = parse('{"name": "x", "value": 1, "percent": {"from": 0.0, "to": 50.0}}')
  expect(audience(condition as unknown as Condition, 'UTC')).toBe('50 % of players')
})

test('times are those of the game’s zone', () => {
  const times = { starts_at: '2026-11-20T08:00:00Z', ends_at: '2026-11-21T08:00:00Z' }
  check(times, 'players from 20 Nov, 08:00 until 21 Nov, 08:00: "fast"')
  expect(window(times, 'Europe/Paris')).toBe('from 20 Nov, 09:00 until 21 Nov, 09:00')
  expect(window({}, 'UTC')).toBe('')
})

test('a long value is cut, a number keeps its digits', () => {
  expect(short('x'.repeat(100), 10)).toBe('"xxxxxxxx…')
  expect(short(parse('1.0'))).toBe('1.0')
})

test('a value has a kind', () => {
  const kinds = ['null', '1.0', '1', '"a"', 'true', '[]', '{}'].map((text) => kind(parse(text)))
  expect(kinds).toEqual(['nothing', 'number', 'number', 'text', 'yes or no', 'list', 'object'])
})

test('a value that is not everybody’s says where it comes from', () => {
  const definition = { value: 1, default: 0, conditions: [{ name: 'fast', value: 2 }] }
  expect([1, 2, 0].map((value) => whence(definition, value))).toEqual(['', 'fast', 'default'])
})
