import { expect, test } from 'vitest'
import { formOf, frozenName, membersOf, newForm, newRule, playersOf, usersText, type CohortState } from './cohort'

const state = (more: Partial<CohortState>): CohortState => ({
  name: 'c',
  kind: 'condition',
  size: null,
  evaluated_at: null,
  failure: null,
  used_by: [],
  ...more,
})

const conditions = [
  { event: 'purchase', at_least: 2, within_days: 7 },
  { not: { event: 'win', where: [{ property: 'level', op: '=', value: '3' }, { or: [{ property: 'country', op: 'in', value: ['FR', 'DE'] }, { property: 'props.vip', op: 'set' }] }], at_least: 1, within_days: 30 } },
  { and: [{ event: 'a', at_least: 1, within_days: 1 }, { property: 'country', op: '=', value: 'FR', within_days: 90 }] },
  { or: [{ not: { event: 'a', at_least: 1, within_days: 1 } }, { property: 'props.price', op: '>=', value: 5, within_days: 30 }] },
]

test('a condition is the same after editing without a change', () => {
  for (const condition of conditions) {
    const form = formOf(state({ condition }))
    expect(form && membersOf(form)).toEqual({ condition })
  }
})

test('groups within groups are not edited in the form', () => {
  expect(formOf(state({ condition: { and: [{ or: [{ event: 'a' }] }, { event: 'b' }] } }))).toBeUndefined()
  expect(formOf(state({ condition: { event: 'a', where: [{ and: [] }] } }))).toBeUndefined()
})

test('rules that are not complete are no part of the condition', () => {
  const form = { ...newForm(), rules: [newRule('event'), newRule('property')] }
  expect(membersOf(form)).toBeUndefined()
  expect(membersOf({ ...form, rules: [...form.rules, { ...newRule('event'), event: 'a' }] })).toEqual({
    condition: { event: 'a', at_least: 1, within_days: 30 },
  })
})

test('a list has each id once', () => {
  expect(playersOf(' ann\nbo\n\nann ')).toEqual(['ann', 'bo'])
  const form = formOf(state({ kind: 'list', players: ['ann', 'bo'] }))
  expect(form && membersOf(form)).toEqual({ players: ['ann', 'bo'] })
})

test('a frozen list is named after its day', () => {
  expect(frozenName('payers', '2026-11-20')).toBe('payers-2026-11-20')
  expect(frozenName('x'.repeat(64), '2026-11-20').length).toBe(64)
})

test('what uses a cohort is named', () => {
  expect(usersText(state({ used_by: [{ kind: 'variable', name: 'speed' }, { kind: 'survey', name: 's' }] }))).toBe('variable speed, survey s')
})
