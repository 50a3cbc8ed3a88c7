import { expect, test } from 'vitest'
import { fieldsInWords, inWords, score, windowOf, type Board, type Row } from './board'
import { changesOf, settingsOf } from './settings'

const BOARD: Board = {
  table: 'stars',
  title: '',
  order: 'desc',
  keep: 'best',
  windows: ['day', 'all'],
  min: null,
  max: 500,
  decimals: 2,
  mode: 'session',
  competitive: false,
  checks: { min_play_s: 10 },
  filters: ['car'],
  private: false,
  season: 0,
  players: 3,
}

function bodyOf(change: Partial<ReturnType<typeof settingsOf>>) {
  const found = changesOf({ ...settingsOf(BOARD), ...change }, BOARD)
  return 'body' in found ? found.body : Object.keys(found.wrongs)
}

test('a board is a sentence', () => {
  expect(inWords(BOARD)).toBe('highest first · best of each player · from players, signed')
})

test('a board opens on its longest window, unless another one is asked for', () => {
  expect(windowOf(BOARD, '')).toBe('all')
  expect(windowOf(BOARD, 'day')).toBe('day')
  expect(windowOf({ ...BOARD, windows: ['24h', '7d'] }, 'all')).toBe('7d')
})

test('scores have the decimals of their board', () => {
  expect(score(1234.5, 2)).toBe('1,234.50')
  expect(score(-7, 0)).toBe('-7')
})

test('a row says what came with it', () => {
  const row = { fields: { car: 'red', track: '3' }, source: 'web' } as unknown as Row
  expect(fieldsInWords(row)).toBe('car red, track 3, from web')
})

test('only what was changed is sent', () => {
  expect(bodyOf({})).toEqual({})
  expect(bodyOf({ title: 'Stars', filters: 'car, track' })).toEqual({ title: 'Stars', filters: ['car', 'track'] })
  expect(bodyOf({ min_play_s: '' })).toEqual({ checks: {} })
  expect(bodyOf({ private: true, code: 'friends' })).toEqual({ private: 'friends' })
  expect(bodyOf({ decimals: '3' })).toEqual({ decimals: 3 })
})

test('what makes no sense is said at its field', () => {
  expect(bodyOf({ table: 'a b' })).toEqual(['table'])
  expect(bodyOf({ windows: [] })).toEqual(['windows'])
  expect(bodyOf({ min: 'many' })).toEqual(['min'])
  expect(bodyOf({ max: '' })).toEqual(['max'])
})
