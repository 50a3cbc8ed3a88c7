import { expect, test } from 'vitest'
import { parse, stringify, type Json } from '../../json'
import type { Definition } from './definition'
import { bodyOf, draftOf, emptyCondition, formFields, moveItem, nearestField, parseDraft, type Draft, type FieldErrors } from './draft'

const WHOLE = `{"value": 1.0, "default": null, "schema": {"type": "number"}, "description": "How fast",
  "starts_at": "2026-11-20T08:00:00.250Z", "conditions": [
  {"name": "fast", "value": 12345678901234567890, "country": ["FR"], "segment": ["a", "b"],
   "percent": {"from": 25, "to": 50, "salt": "s"}, "ends_at": "2026-12-01T00:00:00.000Z"}]}`

const definition = (text: string) => parse(text) as unknown as Definition

function errorsOf(change: Partial<Draft>): FieldErrors {
  const result = parseDraft({ ...draftOf('speed', definition(WHOLE), 'UTC'), ...change }, 'UTC')
  return 'errors' in result ? result.errors : {}
}

test('an unedited draft gives the same definition', () => {
  for (const tz of ['UTC', 'Europe/Paris']) {
    const base = definition(WHOLE)
    const result = parseDraft(draftOf('speed', base, tz), tz, base)
    expect('definition' in result && result.definition).toEqual(base)
  }
})

test('the body keeps every digit and contains the expected version', () => {
  const body = bodyOf(definition('{"value": 1.0}'), 7)
  expect(body).toBe('{"value": 1.0, "expected_version": 7}')
})

test('errors are reported by field', () => {
  expect(errorsOf({ name: 'a b' })).toHaveProperty('name')
  expect(errorsOf({ value: '' })).toHaveProperty('value')
  expect(errorsOf({ value: '{' }).value).toMatch(/^This is not valid JSON\./)
  expect(errorsOf({ value: 'fast' }).value).toContain('Put text in quotes: "fast".')
  expect(errorsOf({ ends_at: '2026-11-19T00:00' })).toHaveProperty('ends_at')
  const condition = { ...emptyCondition([]), value: '1', to: '20', from: '30' }
  expect(Object.keys(errorsOf({ conditions: [condition] }))).toEqual(['conditions[0].percent.to'])
})

test('an empty condition matches all players and has a unique name', () => {
  expect(emptyCondition(['variant-1']).name).toBe('variant-2')
  const result = parseDraft(
    { ...draftOf('a', undefined, 'UTC'), value: '1', conditions: [{ ...emptyCondition([]), value: '2' }] },
    'UTC',
  )
  expect('definition' in result && stringify(result.definition as unknown as Json)).toBe(
    '{"value": 1, "conditions": [{"name": "variant-1", "value": 2}]}',
  )
})

test('country codes are upper-cased', () => {
  const condition = { ...emptyCondition([]), value: '2', country: ' fr, De ,' }
  const result = parseDraft({ ...draftOf('a', undefined, 'UTC'), value: '1', conditions: [condition] }, 'UTC')
  expect('definition' in result && result.definition.conditions?.[0]?.country).toEqual(['FR', 'DE'])
})

test('an error of the server is shown at the innermost field that contains it', () => {
  const fields = formFields(draftOf('speed', definition(WHOLE), 'UTC'))
  expect(nearestField('conditions[0].percent.to', fields)).toBe('conditions[0].percent.to')
  expect(nearestField('conditions[0].country', fields)).toBe('conditions[0].country')
  expect(nearestField('value.a[2]', fields)).toBe('value')
  expect(nearestField('conditions[0].value/x', fields)).toBe('conditions[0].value')
  expect(nearestField('vars', fields)).toBe('')
  expect(nearestField(undefined, fields)).toBe('')
})

test('conditions can be reordered but not moved beyond the ends', () => {
  expect(moveItem(['a', 'b', 'c'], 0, 1)).toEqual(['b', 'a', 'c'])
  expect(moveItem(['a', 'b', 'c'], 2, 0)).toEqual(['c', 'a', 'b'])
  expect(moveItem(['a', 'b'], 0, -1)).toEqual(['a', 'b'])
  expect(moveItem(['a', 'b'], 1, 2)).toEqual(['a', 'b'])
})
