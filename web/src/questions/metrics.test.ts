import { expect, test } from 'vitest'
import { deltaOf, duration, formatValue, pairOf, RATES, wilson } from './metrics'

test('values are formatted in the unit of their metric', () => {
  expect(formatValue(12_345.6, 'number')).toBe('12,346')
  expect(formatValue(3.14159, 'number')).toBe('3.14')
  expect(formatValue(0.6119, 'percent')).toBe('61.2%')
  expect(formatValue(null, 'number')).toBe('–')
  expect([duration(4.25), duration(270), duration(3_600), duration(90_000)]).toEqual(['4.3s', '4m 30s', '1h', '1d 1h'])
})

test('a change of a rate is in percentage points', () => {
  expect(deltaOf(0.612, 0.591, 'percent')).toEqual({ text: '+2.1 pp', direction: 'up' })
  expect(deltaOf(90, 100, 'number')).toEqual({ text: '−10.0%', direction: 'down' })
  expect(deltaOf(5, 0, 'number')).toBeUndefined()
  expect(deltaOf(5, null, 'number')).toBeUndefined()
})

test('the interval of a rate is wide for few players', () => {
  const [low, high] = wilson(0.5, 10)
  expect(low).toBeCloseTo(0.237, 3)
  expect(high).toBeCloseTo(0.763, 3)
  expect(wilson(0, 5)[0]).toBe(0)
})

test('a rate counts the events that the game sends most', () => {
  const [winRate] = RATES
  if (!winRate) throw new Error('there is no rate')
  expect(pairOf(winRate, new Map([['start', 9], ['win', 5], ['level_start', 3], ['level_win', 2]])).whole.event).toBe('start')
  expect(pairOf(winRate, new Map([['$level', 4]])).part.where?.value).toBe('win')
  expect(pairOf(winRate, new Map()).whole.event).toBe('level_start')
})
