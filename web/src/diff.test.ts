import { expect, test } from 'vitest'
import { diff } from './diff'

const SIGNS = { same: ' ', removed: '-', added: '+' }

function check(before: string[], after: string[], expected: string[]) {
  const found = diff(before.join('\n'), after.join('\n')).map(({ kind, text }) => SIGNS[kind] + text)
  expect(found).toEqual(expected)
}

test('an unchanged line appears once, a changed line as removed and added', () => {
  check(['a', 'b', 'c'], ['a', 'x', 'c'], [' a', '-b', '+x', ' c'])
  check(['a', 'b', 'c'], ['b', 'c', 'd'], ['-a', ' b', ' c', '+d'])
  check(['a'], ['a'], [' a'])
})

test('a diff from an empty text is all added, to an empty text all removed', () => {
  check([], ['a', 'b'], ['+a', '+b'])
  check(['a', 'b'], [], ['-a', '-b'])
})

test('texts above the size limit are all removed and all added', () => {
  const many = (letter: string) => Array.from({ length: 1_100 }, (_, i) => `${letter}${i}`)
  expect(diff(many('a').join('\n'), many('b').join('\n'))).toHaveLength(2_200)
})
