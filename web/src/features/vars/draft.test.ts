import { expect, test } from 'vitest'
import { parse, write, type Json } from '../../json'
import type { Definition } from './definition'
import { bodyOf, draftOf, emptyCondition, fieldsOf, moved, place, read, type Draft, type Wrongs } from './draft'

const WHOLE = `{"value": 1.0, "default": null, "schema": {"type": "number"}, "description": "How fast",
  "starts_at": "2026-11-20T08:00:00.250Z", "conditions": [
  {"name": "fast", "value": 12345678901234567890, "country": ["FR"], "segment": ["a", "b"],
   "percent": {"from": 25, "to": 50, "salt": "s"}, "ends_at": "2026-12-01T00:00:00.000Z"}]}`

const definition = (text: string) => parse(text) as unknown as Definition

function wrongsOf(change: Partial<Draft>): Wrongs {
  const found = read({ ...draftOf('speed', definition(WHOLE), 'UTC'), ...change }, 'UTC')
  return 'wrongs' in found ? found.wrongs : {}
}

test('what is not touched is written back as it was', () => {
  for (const tz of ['UTC', 'Europe/Paris']) {
    const base = definition(WHOLE)
    const found = read(draftOf('speed', base, tz), tz, base)
    expect('definition' in found && found.definition).toEqual(base)
  }
})

test('the body keeps every digit and says for which version it is', () => {
  const body = bodyOf(definition('{"value": 1.0}'), 7)
  expect(body).toBe('{"value": 1.0, "expected_version": 7}')
})

test('what is wrong is said at its field', () => {
  expect(wrongsOf({ name: 'a b' })).toHaveProperty('name')
  expect(wrongsOf({ value: '' })).toHaveProperty('value')
  expect(wrongsOf({ value: '{' }).value).toMatch(/^This is not JSON\./)
  expect(wrongsOf({ value: 'fast' }).value).toContain('Text stands in quotes: "fast".')
  expect(wrongsOf({ ends_at: '2026-11-19T00:00' })).toHaveProperty('ends_at')
  const condition = { ...emptyCondition([]), value: '1', to: '20', from: '30' }
  expect(Object.keys(wrongsOf({ conditions: [condition] }))).toEqual(['conditions[0].percent.to'])
})

test('an empty condition is for all players, and has a name of its own', () => {
  expect(emptyCondition(['variant-1']).name).toBe('variant-2')
  const found = read(
    { ...draftOf('a', undefined, 'UTC'), value: '1', conditions: [{ ...emptyCondition([]), value: '2' }] },
    'UTC',
  )
  expect('definition' in found && write(found.definition as unknown as Json)).toBe(
    '{"value": 1, "conditions": [{"name": "variant-1", "value": 2}]}',
  )
})

test('countries are written as they are known', () => {
  const condition = { ...emptyCondition([]), value: '2', country: ' fr, De ,' }
  const found = read({ ...draftOf('a', undefined, 'UTC'), value: '1', conditions: [condition] }, 'UTC')
  expect('definition' in found && found.definition.conditions?.[0]?.country).toEqual(['FR', 'DE'])
})

test('what the server says is wrong is shown at the nearest field', () => {
  const fields = fieldsOf(draftOf('speed', definition(WHOLE), 'UTC'))
  expect(place('conditions[0].percent.to', fields)).toBe('conditions[0].percent.to')
  expect(place('conditions[0].country', fields)).toBe('conditions[0].country')
  expect(place('value.a[2]', fields)).toBe('value')
  expect(place('conditions[0].value/x', fields)).toBe('conditions[0].value')
  expect(place('vars', fields)).toBe('')
  expect(place(undefined, fields)).toBe('')
})

test('conditions change places, and not beyond the ends', () => {
  expect(moved(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c'])
  expect(moved(['a', 'b', 'c'], 2, 0)).toEqual(['c', 'a', 'b'])
  expect(moved(['a', 'b'], 0, -1)).toEqual(['a', 'b'])
  expect(moved(['a', 'b'], 1, 2)).toEqual(['a', 'b'])
})
