import { expect, test } from 'vitest'
import { parse, pretty, same, write } from './json'

const again = (text: string) => write(parse(text))

test('numbers stay as they were written', () => {
  expect(again('[1.0, 12345678901234567890, 1e3, -0, 0.1, 7]')).toBe(
    '[1.0, 12345678901234567890, 1e3, -0, 0.1, 7]',
  )
})

test('text stays as it was, however much it looks like a number or a mark', () => {
  const text = '{"1.0": "1.0", "a\\"2.0": "\\\\", "\uE000": "\uE0001.0"}'
  expect(again(text)).toBe(text)
})

test('what is no JSON is refused', () => {
  for (const text of ['', '{', '{a: 1}', '[1,]', '01', 'fast']) expect(() => parse(text)).toThrow(SyntaxError)
})

test('what fits stays on one line, what does not is broken', () => {
  expect(pretty({ a: [1, 2] })).toBe('{"a": [1, 2]}')
  const long = 'x'.repeat(56)
  expect(pretty({ a: long, b: [long, 1] })).toBe(
    `{\n  "a": "${long}",\n  "b": [\n    "${long}",\n    1\n  ]\n}`,
  )
})

test('order of fields does not matter, a digit does', () => {
  expect(same(parse('{"a":1,"b":[2]}'), parse('{"b":[2],"a":1}'))).toBe(true)
  expect(same(parse('1.0'), parse('1'))).toBe(false)
  expect(same(undefined, null)).toBe(false)
})
