import { expect, test } from 'vitest'
import { describeBoard, describeFields, score, selectWindow, type Board, type ScoreRow } from './board'
import { changedFields, formValues } from './board-form'

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

function bodyOf(change: Partial<ReturnType<typeof formValues>>) {
  const result = changedFields({ ...formValues(BOARD), ...change }, BOARD)
  return 'body' in result ? result.body : Object.keys(result.errors)
}

test('a leaderboard is described by its order, kept scores and mode', () => {
  expect(describeBoard(BOARD)).toBe('highest first · best score per player · from signed player sessions')
})

test('the longest window is the default', () => {
  expect(selectWindow(BOARD, '')).toBe('all')
  expect(selectWindow(BOARD, 'day')).toBe('day')
  expect(selectWindow({ ...BOARD, windows: ['24h', '7d'] }, 'all')).toBe('7d')
})

test('scores have no more decimals than they need', () => {
  expect(score(1234.5, 3)).toBe('1,234.5')
  expect(score(12.345, 3)).toBe('12.345')
  expect(score(-7, 0)).toBe('-7')
})

test('a row is described by its fields and source', () => {
  const row = { fields: { car: 'red', track: '3' }, source: 'web' } as unknown as ScoreRow
  expect(describeFields(row)).toBe('car red, track 3, from web')
})

test('only changed fields are sent', () => {
  expect(bodyOf({})).toEqual({})
  expect(bodyOf({ title: 'Stars', filters: 'car, track' })).toEqual({ title: 'Stars', filters: ['car', 'track'] })
  expect(bodyOf({ min_play_s: '' })).toEqual({ checks: {} })
  expect(bodyOf({ private: true, code: 'friends' })).toEqual({ private: 'friends' })
  expect(bodyOf({ decimals: '3' })).toEqual({ decimals: 3 })
})

test('invalid values are reported by field', () => {
  expect(bodyOf({ table: 'a b' })).toEqual(['table'])
  expect(bodyOf({ windows: [] })).toEqual(['windows'])
  expect(bodyOf({ min: 'many' })).toEqual(['min'])
  expect(bodyOf({ max: '' })).toEqual(['max'])
})
