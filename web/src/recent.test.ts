import { expect, test, vi } from 'vitest'
import { recordVisit, removeVisits, viewTitle, visitsOf, withoutText, withVisit } from './recent'

test('a view that is visited again moves to the front', () => {
  const visits = ['/', '/vars', '/boards'].map((href) => ({ href, title: href }))
  const hrefs = withVisit(visits, { href: '/vars', title: 'Variables' }).map(({ href }) => href)
  expect(hrefs).toEqual(['/vars', '/', '/boards'])
})

test('the list is bounded', () => {
  const visits = Array.from({ length: 40 }, (_, i) => ({ href: `/${i}`, title: `${i}` }))
  const all = visits.reduce<typeof visits>(withVisit, [])
  expect(all).toHaveLength(12)
  expect(all[0]?.href).toBe('/39')
})

test('the title of a view has neither game nor product', () => {
  expect(viewTitle('Speed · Variables · Demo game · Playmeter')).toBe('Speed · Variables')
  expect(viewTitle('Playmeter')).toBe('')
})

test('views that name an erased player are removed', () => {
  const visits = [
    { href: '/feed?game=a&player=ann%20b', title: 'Feed' },
    { href: '/?game=a', title: 'Feed of ann b' },
    { href: '/vars?game=a', title: 'Variables' },
  ]
  expect(withoutText(visits, 'ann b').map(({ href }) => href)).toEqual(['/vars?game=a'])
})

test('a view that names an erased player is not stored again', () => {
  const items = new Map<string, string>()
  vi.stubGlobal('localStorage', {
    getItem: (name: string) => items.get(name) ?? null,
    setItem: (name: string, value: string) => void items.set(name, value),
  })
  const visit = (path: string) => recordVisit(new URL(path, 'http://here'), 'Players · Demo · Playmeter')
  visit('/players?game=demo&player=ann')
  removeVisits('ann')
  visit('/players?game=demo&player=ann')
  visit('/players?game=demo&player=bob')
  expect(visitsOf('demo').map(({ href }) => href)).toEqual(['/players?game=demo&player=bob'])
  vi.unstubAllGlobals()
})
