import { expect, test } from 'vitest'
import { parseQuestion } from '../../questions/question'
import { exploreHref, levelWinRateHref } from './explore-url'

const CURRENT = new URLSearchParams('game=demo&view=table')

test('a link keeps the game and is readable', () => {
  const query = 'metric=win&where=country,in,FR,DE&where=level,=,3&by=country'
  const { question } = parseQuestion(new URLSearchParams(query), 'UTC')
  const href = exploreHref(question, 'UTC', CURRENT)
  expect(href).toBe('/explore?game=demo&metric=win&where=country,in,FR,DE&where=level,=,3&by=country')
  expect(parseQuestion(new URL(href, 'http://x').searchParams, 'UTC').question).toEqual(question)
})

test('special characters survive', () => {
  const query = new URLSearchParams({ metric: 'a&b=c,d', where: 'props.x y,=,50%&3', formula: 'A / (A + 1)' })
  const { question } = parseQuestion(query, 'UTC')
  const href = exploreHref(question, 'UTC', CURRENT)
  expect(parseQuestion(new URL(href, 'http://x').searchParams, 'UTC').question).toEqual(question)
})

test('a level links to its win rate', () => {
  expect(levelWinRateHref('3', 'UTC', CURRENT)).toBe('/explore?game=demo&metric=level_win_rate&where=level,=,3')
})
