import { expect, test } from 'vitest'
import { annotationsOf } from './annotations'

test('a change of variables is a mark that links to the variable', () => {
  const changed = { speed: 1, lives: 2, hue: 3, size: 4 }
  const [mark] = annotationsOf([{ at: '2026-11-20T00:00:10Z', by: 'ann', changed }], (name) => `/vars?var=${name}`)
  expect(mark).toEqual({
    at: Date.parse('2026-11-20T00:00:10Z') / 1000,
    text: 'speed, lives, hue and 1 more changed by ann',
    href: '/vars?var=speed',
  })
})
