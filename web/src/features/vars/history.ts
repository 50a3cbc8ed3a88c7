/** Derives versions and differences from the changes of variables. */
import type { Change, Definition, Definitions } from './definition'
import { isSameDefinition } from './draft'

/** Returns the version of a variable's last change; `undefined` if it is older than the history. */
export function lastChangedVersion(changes: Change[], name: string): number | undefined {
  return changes.find(({ changed }) => name in changed)?.version
}

export interface Difference {
  name: string
  before: Definition | undefined
  after: Definition | undefined
}

/**
 * Returns the differences that a rollback to a version would make. The changes are sorted newest first and must reach
 * back to the version.
 */
export function rollbackDifferences(now: Definitions, changes: Change[], version: number): Difference[] {
  const then: Record<string, Definition | undefined> = { ...now.vars }
  for (const change of changes.filter((change) => change.version > version)) {
    for (const [name, { before }] of Object.entries(change.changed)) then[name] = before ?? undefined
  }
  return Object.keys(then)
    .map((name) => ({ name, before: now.vars[name], after: then[name] }))
    .filter(({ before, after }) => !isSameDefinition(before, after))
}

/** Returns the latest change of a variable after a version. */
export function latestChange(changes: Change[], name: string, after: number): Change | undefined {
  return changes.find((change) => change.version > after && name in change.changed)
}
