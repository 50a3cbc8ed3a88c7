import { expect, test } from 'vitest'
import { detailsOf, formatView, lengthSeconds, parseView, playerPath, searchParams, sessionsOf, type TimelineEvent } from './player'

const parse = (text: string) => parseView(new URLSearchParams(text))
const event = (id: string, session?: string, more: Partial<TimelineEvent> = {}): TimelineEvent => ({
  ts: `2026-11-20T10:00:0${id}Z`,
  event: 'e',
  id,
  ...(session ? { session } : {}),
  ...more,
})

test('the view of a URL is written as the same URL', () => {
  const text = 'player=a%2Fb&event=win&search=otter&where=country%2C%3D%2CFR&last=90d'
  expect(formatView(parse(text).view).toString()).toBe(text)
  expect(formatView(parse('').view).toString()).toBe('')
  expect(parse('last=soon').errors.map(({ parameter }) => parameter)).toEqual(['last'])
})

test('a search sends only what is set', () => {
  expect(searchParams(parse('').view, 'UTC', 0)).toEqual({ limit: 50, last: '29d' })
  expect(searchParams(parse('search=+ot+&where=country,=,FR').view, 'UTC', 0)).toEqual({
    limit: 50,
    search: 'ot',
    where: '[{"property":"country","op":"=","value":"FR"}]',
    last: '29d',
  })
})

test('events are grouped by session, also if sessions overlap', () => {
  const groups = sessionsOf([event('9', 'b'), event('8', 'a'), event('7', 'b'), event('6'), event('5'), event('4', 'a')])
  expect(groups.map(({ session, events }) => [session, events.map(({ id }) => id).join('')])).toEqual([
    ['b', '97'],
    ['a', '84'],
    ['', '65'],
  ])
  expect(groups[0] && lengthSeconds(groups[0])).toBe(2)
})

test('events without a session are apart from each other if a session is between them', () => {
  expect(sessionsOf([event('3'), event('2', 'a'), event('1')]).length).toBe(3)
})

test('the details of an event are its level, value and properties', () => {
  expect(detailsOf(event('1', 'a', { level: '3', value: 0, props: { sku: 'gems', at: { x: 1 } } }))).toBe('level 3 · value 0 · sku gems · at {"x":1}')
  expect(detailsOf(event('1'))).toBe('')
})

test('an id is one segment of a path', () => {
  expect(playerPath('a/b?c')).toBe('/v1/players/a%2Fb%3Fc')
})
