import { expect, test } from 'vitest'
import { toCsv } from './table'

function csv(...cells: (string | number | null)[]): string {
  return toCsv({ columns: ['a'], rows: [cells] }).split('\r\n')[1] ?? ''
}

test('lines end with CRLF and null is an empty field', () => {
  expect(toCsv({ columns: ['a', 'b'], rows: [[1, null]] })).toBe('a,b\r\n1,\r\n')
})

test('commas, quotes and line breaks are quoted', () => {
  expect(csv('a,b', 'say "hi"', 'x\ny')).toBe('"a,b","say ""hi""","x\ny"')
})

test('a text that looks like a formula is escaped', () => {
  expect(csv('=1+1', '@x', -5)).toBe("'=1+1,'@x,-5")
})
