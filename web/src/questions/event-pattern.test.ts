import { expect, test } from 'vitest'
import { defaultStart, formatPattern, newPattern, parsePattern, patternName, toRequestPattern, type EventPattern } from './event-pattern'

const level3: EventPattern = { event: 'level_start', where: [[{ property: 'level', op: '=', values: ['3'] }]] }

test('a step is written as its event and its conditions', () => {
  expect(formatPattern(level3)).toBe('level_start;level,=,3')
  expect(formatPattern(newPattern('shop_open'))).toBe('shop_open')
})

test('any name and value is the same after writing and reading', () => {
  const texts = ['a;b', 'a\\', '\\;', ';;', 'a,b|c', 'é"\\;\\\\;', 'purchase']
  for (const event of texts) {
    for (const value of texts) {
      const pattern: EventPattern = {
        event,
        where: [[{ property: 'props.x', op: 'in', values: [value, 'b'] }], [{ property: value, op: 'set', values: [] }]],
      }
      expect(parsePattern(formatPattern(pattern))).toEqual(pattern)
    }
  }
})

test('a text without an event, or with a broken condition, is no step', () => {
  for (const text of ['', ';level,=,3', 'start;level', 'start;']) expect(parsePattern(text)).toBeUndefined()
})

test('conditions are part of the request only if there are some', () => {
  expect(toRequestPattern(newPattern('win'))).toEqual({ event: 'win' })
  expect(toRequestPattern(level3)).toEqual({ event: 'level_start', where: [{ property: 'level', op: '=', value: '3' }] })
})

test('a step is named by its event and its conditions', () => {
  expect(patternName(level3)).toBe('level_start, level is 3')
})

test('players start with a session, or with the most frequent event', () => {
  expect(defaultStart([{ name: 'x' }, { name: '$session_start' }])?.event).toBe('$session_start')
  expect(defaultStart([{ name: 'x' }])?.event).toBe('x')
  expect(defaultStart([])).toBeUndefined()
})
