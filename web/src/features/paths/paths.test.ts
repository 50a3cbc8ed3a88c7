import { expect, test } from 'vitest'
import { distanceName, formatPaths, layoutOf, parsePaths, pathsBody, pathsTable, startCount, type PathsAnswer } from './paths'

const parse = (text: string) => parsePaths(new URLSearchParams(text))
const answer: PathsAnswer = {
  as_of: { time: '', position: '' },
  nodes: [
    { distance: 0, event: 'start', count: 100, players: 50 },
    { distance: 1, event: 'win', count: 60, players: 40 },
    { distance: 1, event: '(other)', count: 30, players: 20 },
    { distance: 2, event: 'start', count: 50, players: 30 },
  ],
  links: [
    { from: 0, to: 1, count: 60, players: 40 },
    { from: 0, to: 2, count: 30, players: 20 },
    { from: 1, to: 3, count: 30, players: 20 },
    { from: 2, to: 3, count: 20, players: 10 },
  ],
}

test('the question of a URL is written as the same URL', () => {
  const text = 'event=start&direction=before&depth=6&top=3&exclude=ad&exclude=ping&where=country%2C%3D%2CFR&last=30d'
  const { paths, errors } = parse(text)
  expect(errors).toEqual([])
  expect(formatPaths(paths).toString()).toBe(text)
  expect(formatPaths(parse('').paths).toString()).toBe('')
  expect(parse('depth=11&direction=up').errors.map(({ parameter }) => parameter)).toEqual(['direction', 'depth'])
})

test('the event that paths start from is not excluded', () => {
  expect(pathsBody(parse('exclude=start&exclude=ad').paths, 'start', 'UTC', 0)).toEqual({
    event: 'start',
    direction: 'after',
    depth: 4,
    top: 8,
    exclude: ['ad'],
    tz: 'UTC',
    last: '6d',
  })
})

test('heights and links are in proportion to the paths, and nodes do not overlap', () => {
  const { nodes, links, columns } = layoutOf(answer, 'after')
  expect(columns).toBe(3)
  expect(startCount(answer)).toBe(100)
  expect(nodes.map(({ height }) => height)).toEqual([320, 192, 96, 160])
  expect(nodes.map(({ column }) => column)).toEqual([0, 1, 1, 2])
  const [, win, other] = nodes
  expect(other?.y).toBeGreaterThanOrEqual((win?.y ?? 0) + (win?.height ?? 0))
  expect(links.map(({ y0, y1, width }) => [y0, y1, width])).toEqual([
    [96, 96, 192],
    [240, 246, 96],
    [48, 48, 96],
    [230, 128, 64],
  ])
})

test('paths before an event end at it', () => {
  expect(layoutOf(answer, 'before').nodes.map(({ column }) => column)).toEqual([2, 1, 1, 0])
})

test('a distance has a name', () => {
  expect([0, 1, 2, 3, 4].map((distance) => distanceName(distance, 'after'))).toEqual([
    'Start',
    '1st event after',
    '2nd event after',
    '3rd event after',
    '4th event after',
  ])
})

test('the table has a row for each link', () => {
  expect(pathsTable(answer).rows[1]).toEqual([1, 'start', '(other)', 30, 20])
})
