import { expect, test } from 'vitest'
import { uuid } from '../src/uuid.js'

test('an id is a UUID version 7 that begins with its time', () => {
  const id = uuid(0x0190_0000_0000)
  expect(id).toMatch(/^01900000-0000-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
})

test('ids are ordered within a millisecond and when the clock is set back', () => {
  const now = 0x0190_0000_0001
  const ids = Array.from({ length: 10_000 }, (_, i) => uuid(now - (i % 7)))
  expect(ids).toEqual([...ids].sort())
  expect(new Set(ids).size).toBe(ids.length)
})
