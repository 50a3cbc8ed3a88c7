import { expect, test } from 'vitest'
import { viewTitle, withVisit } from './recent'

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
