import { expect, test } from 'vitest'
import { describeItem, namesOf, type FeedItem } from './feed'

const item = (more: Partial<FeedItem>): FeedItem => ({ id: '1', kind: 'post', at: '', players: [], players_count: 0, ...more })

test('each kind of item has a sentence', () => {
  expect(describeItem(item({ kind: 'score', table: 'stars', score: '20' }))).toBe('scored 20 on stars')
  expect(describeItem(item({ kind: 'achievement', text: 'Alphabet' }))).toBe('earned the achievement Alphabet')
  expect(describeItem(item({ kind: 'level', level: 'l1' }))).toBe('published the level l1')
  expect(describeItem(item({ kind: 'trade', text: 'Bo traded.' }))).toBe('Bo traded.')
  expect(describeItem(item({ kind: 'wave' }))).toBe('wave')
})

test('two players are named and the others are counted', () => {
  const players = ['Ann', '', 'Cy'].map((name, i) => ({ name, player: `p${i}` }))
  expect(namesOf({ players, players_count: 3 })).toEqual(['Ann', 'p1', '1 other'])
  expect(namesOf({ players: players.slice(0, 1), players_count: 1 })).toEqual(['Ann'])
  expect(namesOf({ players, players_count: 1_500 }).at(-1)).toBe('1498 others')
})
