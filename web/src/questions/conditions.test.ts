import { expect, test } from 'vitest'
import { describeFilter, formatFilter, parseFilter, toConditions, toDimensionFilter, type Filter } from './conditions'

const FR_OR_DE: Filter = [{ property: 'country', op: 'in', values: ['FR', 'DE'] }]
const DIMENSIONS = new Set(['country', 'level'])

test('a filter is the same after a round trip through the URL', () => {
  const filters: Filter[] = [
    FR_OR_DE,
    [{ property: 'props.vip', op: 'set', values: [] }],
    [{ property: 'props.a,b|c\\d', op: '=', values: ['x|y,z\\'] }],
    [{ property: 'version', op: '=', values: [''] }],
    [{ property: 'level', op: '=', values: ['3'] }, { property: 'props.price', op: '>=', values: ['5'] }],
  ]
  for (const filter of filters) expect(parseFilter(formatFilter(filter))).toEqual(filter)
  expect(formatFilter(FR_OR_DE)).toBe('country,in,FR,DE')
})

test('an incomplete or unknown filter is rejected', () => {
  for (const text of ['', 'country', 'country,like,FR', ',=,FR', 'country,=', 'country,=,FR,DE', 'country,set,x', 'a,=,b|']) {
    expect(parseFilter(text)).toBeUndefined()
  }
})

test('values are compared as numbers only where order matters', () => {
  const conditions = toConditions([
    [{ property: 'level', op: '=', values: ['3'] }],
    [{ property: 'props.price', op: '>=', values: ['5'] }],
    [{ property: 'version', op: '<', values: ['1.4.0'] }],
  ])
  expect(conditions).toEqual([
    { property: 'level', op: '=', value: '3' },
    { property: 'props.price', op: '>=', value: 5 },
    { property: 'version', op: '<', value: '1.4.0' },
  ])
})

test('alternatives become a group', () => {
  const filter = parseFilter('country,=,FR|cohort,!=,payers')
  expect(toConditions([filter ?? []])).toEqual([
    { or: [{ property: 'country', op: '=', value: 'FR' }, { not: { cohort: 'payers' } }] },
  ])
})

test('only lists of values of dimensions can be answered from rollups', () => {
  expect(toDimensionFilter([FR_OR_DE], DIMENSIONS)).toEqual({ country: ['FR', 'DE'] })
  expect(toDimensionFilter([FR_OR_DE, FR_OR_DE], DIMENSIONS)).toBeUndefined()
  expect(toDimensionFilter([[{ property: 'country', op: '!=', values: ['FR'] }]], DIMENSIONS)).toBeUndefined()
  expect(toDimensionFilter([[{ property: 'props.price', op: '=', values: ['5'] }]], DIMENSIONS)).toBeUndefined()
})

test('a filter is described in words', () => {
  expect(describeFilter(FR_OR_DE)).toBe('country is one of FR, DE')
  expect(describeFilter([{ property: 'props.vip', op: 'unset', values: [] }])).toBe('vip is not set')
})
