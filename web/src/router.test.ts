import { expect, test } from 'vitest'
import { changed, hrefOf, isElsewhere, isPlain, pageOf, pathOf, PAGES } from './router'

const query = (text: string) => new URLSearchParams(text)
const at = (path: string) => new URL(path, 'http://here')

test('every page has an address, and every address its page', () => {
  for (const page of PAGES) expect(pageOf(pathOf(page))).toBe(page)
  expect(pageOf('/vars/')).toBe('vars')
})

test('what is no page is none', () => {
  for (const path of ['/live', '/nothing', '/vars/speed', '/play/']) expect(pageOf(path)).toBeUndefined()
})

test('the chosen game goes along, what is empty does not', () => {
  expect(hrefOf(query('game=a%20b&board=stars'), 'vars')).toBe('/vars?game=a+b')
  expect(hrefOf(query(''), 'boards', { board: 'a&b', page: 2, around: '' })).toBe(
    '/boards?board=a%26b&page=2',
  )
  expect(hrefOf(query('game=demo'), 'live')).toBe('/?game=demo')
})

test('a parameter changes and the others stay', () => {
  const current = query('board=stars&window=day&page=3')
  expect(changed(current, 'boards', { window: 'week', page: undefined })).toBe(
    '/boards?board=stars&window=week',
  )
})

test('another page or view is elsewhere, another tab or leaf is not', () => {
  expect(isElsewhere(at('/'), at('/vars'))).toBe(true)
  expect(isElsewhere(at('/boards'), at('/boards?board=stars'))).toBe(true)
  expect(isElsewhere(at('/boards?board=stars'), at('/boards?board=stars&window=day&page=2'))).toBe(false)
})

test('only an ordinary click is followed', () => {
  const click = {
    defaultPrevented: false,
    button: 0,
    metaKey: false,
    ctrlKey: false,
    shiftKey: false,
    altKey: false,
  }
  expect(isPlain(click)).toBe(true)
  expect(isPlain({ ...click, ctrlKey: true })).toBe(false)
  expect(isPlain({ ...click, button: 1 })).toBe(false)
  expect(isPlain({ ...click, defaultPrevented: true })).toBe(false)
})
