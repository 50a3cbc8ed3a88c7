import { expect, test } from 'vitest'
import { pages } from './pages'
import { hrefOf, isOtherView, isPlainClick, pageOf, PAGES, pathOf, withParams } from './router'

const query = (text: string) => new URLSearchParams(text)
const at = (path: string) => new URL(path, 'http://here')

test('every page has a path and every path its page', () => {
  for (const page of PAGES) expect(pageOf(pathOf(page))).toBe(page)
  expect(pageOf('/vars/')).toBe('vars')
})

test('an unknown path has no page', () => {
  for (const path of ['/live', '/nothing', '/vars/speed', '/play/']) expect(pageOf(path)).toBeUndefined()
})

test('the selected game is kept, empty parameters are omitted', () => {
  expect(hrefOf(query('game=a%20b&board=stars'), 'vars')).toBe('/vars?game=a+b')
  expect(hrefOf(query(''), 'boards', { board: 'a&b', page: 2, around: '' })).toBe(
    '/boards?board=a%26b&page=2',
  )
  expect(hrefOf(query('game=demo'), 'live')).toBe('/?game=demo')
})

test('changing a parameter keeps the others', () => {
  const current = query('board=stars&window=day&page=3')
  expect(withParams(current, 'boards', { window: 'week', page: undefined })).toBe(
    '/boards?board=stars&window=week',
  )
})

test('changing a parameter keeps repeated ones', () => {
  const current = query('s=install&s=purchase&where=a&where=b')
  expect(withParams(current, 'funnels', { game: 'demo' })).toBe('/funnels?s=install&s=purchase&where=a&where=b&game=demo')
  expect(withParams(current, 'funnels', { s: undefined })).toBe('/funnels?where=a&where=b')
})

test('another page or view is another view, another tab or page number is not', () => {
  expect(isOtherView(at('/'), at('/vars'))).toBe(true)
  expect(isOtherView(at('/boards'), at('/boards?board=stars'))).toBe(true)
  expect(isOtherView(at('/boards?board=stars'), at('/boards?board=stars&window=day&page=2'))).toBe(false)
})

test('only a plain click is followed', () => {
  const click = {
    defaultPrevented: false,
    button: 0,
    metaKey: false,
    ctrlKey: false,
    shiftKey: false,
    altKey: false,
  }
  expect(isPlainClick(click)).toBe(true)
  expect(isPlainClick({ ...click, ctrlKey: true })).toBe(false)
  expect(isPlainClick({ ...click, button: 1 })).toBe(false)
  expect(isPlainClick({ ...click, defaultPrevented: true })).toBe(false)
})

test('every page of the registry has a component', () => {
  const files = Object.keys(import.meta.glob('./features/*/*Page.svelte')).sort()
  const named = Object.values(pages).map(({ file }) => `./features/${file}.svelte`)
  expect(named.sort()).toEqual(files)
})
