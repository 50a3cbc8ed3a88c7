import { expect, test } from 'vitest'
import { parseFormula } from './formula'

const VALUES: Record<string, number | null> = { A: 6, B: 4, C: null, D: 0 }
const compute = (text: string) => parseFormula(text, ['A', 'B', 'C', 'D'])((name) => VALUES[name] ?? null)

test('products bind more tightly than sums, from left to right', () => {
  expect(compute('A + B * 2')).toBe(14)
  expect(compute('(A+B)*2')).toBe(20)
  expect(compute('A - B - 1')).toBe(1)
  expect(compute('A / B / 2')).toBe(0.75)
  expect(compute('-A + 0.5')).toBe(-5.5)
})

test('a missing value and a division by zero give no value', () => {
  expect(compute('A + C')).toBeNull()
  expect(compute('A / D')).toBeNull()
})

test('an error names what is wrong', () => {
  expect(() => compute('A / X')).toThrow('"X" is not a series')
  expect(() => compute('A /')).toThrow('ends too early')
  expect(() => compute('(A')).toThrow('closing parenthesis')
  expect(() => compute('A B')).toThrow('"B" is not expected here')
})
