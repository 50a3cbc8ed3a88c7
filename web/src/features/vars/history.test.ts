import { expect, test } from 'vitest'
import type { Change, Definitions } from './definition'
import { lastChangedVersion, latestChange, rollbackDifferences } from './history'

const change = (version: number, name: string, before: number | null, after: number | null): Change => ({
  version,
  at: '2026-11-20T00:00:00Z',
  by: 'person',
  changed: {
    [name]: {
      before: before === null ? null : { value: before },
      after: after === null ? null : { value: after },
    },
  },
})

const CHANGES = [
  change(4, 'speed', 2, 3),
  change(3, 'title', null, 9),
  change(2, 'speed', 1, 2),
  change(1, 'speed', null, 1),
]
const NOW: Definitions = { version: 4, vars: { speed: { value: 3 }, title: { value: 9 } } }

const brief = (version: number) =>
  rollbackDifferences(NOW, CHANGES, version).map(
    ({ name, before, after }) => `${name} ${before?.value ?? '-'} to ${after?.value ?? '-'}`,
  )

test('a rollback undoes every later change', () => {
  expect(brief(3)).toEqual(['speed 3 to 2'])
  expect(brief(2)).toEqual(['speed 3 to 2', 'title 9 to -'])
  expect(brief(0)).toEqual(['speed 3 to -', 'title 9 to -'])
})

test('a rollback to the current version changes nothing', () => {
  expect(brief(4)).toEqual([])
})

test('the latest change of a variable gives its version', () => {
  expect(lastChangedVersion(CHANGES, 'title')).toBe(3)
  expect(lastChangedVersion(CHANGES, 'other')).toBeUndefined()
  expect(latestChange(CHANGES, 'speed', 2)?.version).toBe(4)
  expect(latestChange(CHANGES, 'title', 3)).toBeUndefined()
})
