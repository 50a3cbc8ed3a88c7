import { expect, test } from 'vitest'
import { withoutText } from './recent-queries'

test('queries that name an erased player are removed', () => {
  const stored = { draft: "SELECT 'o''neil'", recent: ["SELECT * FROM events WHERE player = 'o''neil'", 'SELECT 1'] }
  expect(withoutText(stored, "o'neil")).toEqual({ draft: '', recent: ['SELECT 1'] })
  expect(withoutText(stored, 'bob')).toEqual(stored)
})
