import { expect, test } from 'vitest'
import { idFor, timeZones } from './game'

test('an id is derived from the name', () => {
  expect([idFor('Word Game 2!'), idFor('  Été à Paris '), idFor('游戏'), idFor('x'.repeat(99)).length]).toEqual(['word-game-2', 'ete-a-paris', '', 40])
})

test('the time zones start with UTC and have no duplicates', () => {
  const zones = timeZones()
  expect(zones[0]).toBe('UTC')
  expect(new Set(zones).size).toBe(zones.length)
})
