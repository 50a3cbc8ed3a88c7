import { expect, test } from 'vitest'
import { isEqual, parse, stringify, stringifyPretty } from './json'

const roundTrip = (text: string) => stringify(parse(text))

test('numbers keep their text', () => {
  expect(roundTrip('[1.0, 12345678901234567890, 1e3, -0, 0.1, 7]')).toBe(
    '[1.0, 12345678901234567890, 1e3, -0, 0.1, 7]',
  )
})

test('strings that look like numbers or like the prefix are kept', () => {
  const text = '{"1.0": "1.0", "a\\"2.0": "\\\\", "\uE000": "\uE0001.0"}'
  expect(roundTrip(text)).toBe(text)
})

test('invalid JSON throws a SyntaxError', () => {
  for (const text of ['', '{', '{a: 1}', '[1,]', '01', 'fast']) expect(() => parse(text)).toThrow(SyntaxError)
})

test('a value that fits stays on one line, a longer one is split', () => {
  expect(stringifyPretty({ a: [1, 2] })).toBe('{"a": [1, 2]}')
  const long = 'x'.repeat(56)
  expect(stringifyPretty({ a: long, b: [long, 1] })).toBe(
    `{\n  "a": "${long}",\n  "b": [\n    "${long}",\n    1\n  ]\n}`,
  )
})

test('equality ignores the order of fields but not the digits', () => {
  expect(isEqual(parse('{"a":1,"b":[2]}'), parse('{"b":[2],"a":1}'))).toBe(true)
  expect(isEqual(parse('1.0'), parse('1'))).toBe(false)
  expect(isEqual(undefined, null)).toBe(false)
})
