import { expect, test } from 'vitest'
import { ParamReader, ParamWriter, questionHref } from './page-params'

const read = (text: string) => new ParamReader(new URLSearchParams(text))

test('missing parameters have their defaults', () => {
  const reader = read('')
  expect(reader.choice('order', ['loose', 'strict'], 'loose')).toBe('loose')
  expect(reader.integer('depth', 1, 10, 4)).toBe(4)
  expect(reader.range('30d')).toEqual({ last: '30d' })
  expect(reader.filters()).toEqual([])
  expect(reader.errors).toEqual([])
})

test('a parameter that cannot be used is named, and its default is used', () => {
  const reader = read('order=odd&depth=0&last=soon&where=country&by=a&by=b')
  expect(reader.choice('order', ['loose', 'strict'], 'loose')).toBe('loose')
  expect(reader.integer('depth', 1, 10, 4)).toBe(4)
  expect(reader.range('30d')).toEqual({ last: '30d' })
  expect(reader.filters()).toEqual([])
  expect(reader.list('by', 1, (text) => text, 'country')).toEqual(['a'])
  expect(reader.errors.map(({ parameter }) => parameter)).toEqual(['order', 'depth', 'last', 'where', 'by'])
})

test('defaults are not written', () => {
  const writer = new ParamWriter().set('order', 'loose', 'loose').set('depth', 4, 4).set('by', '').range({ last: '30d' }, '30d').filters([])
  expect(writer.params.toString()).toBe('')
})

test('a range and filters are the same after writing and reading', () => {
  const filters = [[{ property: 'country', op: 'in' as const, values: ['FR', 'DE'] }]]
  const range = { from: '2026-11-01', to: '2026-11-07' }
  const reader = new ParamReader(new ParamWriter().range(range, '30d').filters(filters).params)
  expect(reader.range('30d')).toEqual(range)
  expect(reader.filters()).toEqual(filters)
})

test('a URL keeps the game and is readable', () => {
  const question = new URLSearchParams([['s', 'a;level,=,3'], ['s', 'b']])
  expect(questionHref('/funnels', question, new URLSearchParams('game=demo&other=1'))).toBe('/funnels?game=demo&s=a;level,%3D,3&s=b')
  expect(questionHref('/funnels', new URLSearchParams(), new URLSearchParams())).toBe('/funnels')
})
