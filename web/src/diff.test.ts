import { expect, test } from 'vitest'
import { diff } from './diff'

const SIGNS = { same: ' ', removed: '-', added: '+' }

function check(before: string[], after: string[], expected: string[]) {
  const found = diff(before.join('\n'), after.join('\n')).map(({ kind, text }) => SIGNS[kind] + text)
  expect(found).toEqual(expected)
}

test('what stayed is told once, what changed twice', () => {
  check(['a', 'b', 'c'], ['a', 'x', 'c'], [' a', '-b', '+x', ' c'])
  check(['a', 'b', 'c'], ['b', 'c', 'd'], ['-a', ' b', ' c', '+d'])
  check(['a'], ['a'], [' a'])
})

test('out of nothing everything is added, and into nothing removed', () => {
  check([], ['a', 'b'], ['+a', '+b'])
  check(['a', 'b'], [], ['-a', '-b'])
})

test('very long texts are told as a whole', () => {
  const many = (letter: string) => Array.from({ length: 1_100 }, (_, i) => `${letter}${i}`)
  expect(diff(many('a').join('\n'), many('b').join('\n'))).toHaveLength(2_200)
})
