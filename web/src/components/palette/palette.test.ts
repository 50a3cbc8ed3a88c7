import { expect, test } from 'vitest'
import { matching, type PaletteItem } from './palette'

const item = (section: PaletteItem['section'], label: string, detail?: string): PaletteItem => ({
  section,
  label,
  icon: 'live',
  ...(detail ? { detail } : {}),
})
const labels = (items: PaletteItem[], text: string) =>
  matching(items, text).map(({ name, items }) => [name, ...items.map(({ label }) => label)].join(' '))

test('without a text, recent views, pages and actions are listed', () => {
  const items = [item('Actions', 'Sign out'), item('Metrics', 'plays'), item('Pages', 'Live'), item('Recent', 'Speed')]
  expect(labels(items, ' ')).toEqual(['Recent Speed', 'Pages Live', 'Actions Sign out'])
})

test('every word must match, the start of the text comes first', () => {
  const items = [item('Pages', 'Collectors'), item('Pages', 'Levels'), item('Pages', 'Leaderboards', 'levels of scores')]
  expect(labels(items, 'lev')).toEqual(['Pages Levels Leaderboards'])
  expect(labels(items, 'scores lead')).toEqual(['Pages Leaderboards'])
  expect(labels(items, 'lev nothing')).toEqual([])
})

test('the start of a word comes before its middle', () => {
  const items = [item('Metrics', 'unlevel'), item('Metrics', 'start_level')]
  expect(labels(items, 'level')).toEqual(['Metrics start_level unlevel'])
})

test('a section lists at most six matches', () => {
  const items = Array.from({ length: 20 }, (_, i) => item('Players', `ann-${i}`))
  expect(matching(items, 'ann')[0]?.items).toHaveLength(6)
})
