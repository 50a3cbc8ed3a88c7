/** What can be said from the changes of variables. */
import type { Change, Definition, Definitions } from './definition'
import { sameDefinition } from './draft'

/** The version at which a variable became what it is; nothing where that is longer ago than the history. */
export function versionOf(changes: Change[], name: string): number | undefined {
  return changes.find(({ changed }) => name in changed)?.version
}

export interface Difference {
  name: string
  before: Definition | undefined
  after: Definition | undefined
}

/**
 * What would become of the variables if they were again what they were at a version. The changes have to reach back to
 * it; they come newest first.
 */
export function differencesTo(now: Definitions, changes: Change[], version: number): Difference[] {
  const then: Record<string, Definition | undefined> = { ...now.vars }
  for (const change of changes.filter((change) => change.version > version)) {
    for (const [name, { before }] of Object.entries(change.changed)) then[name] = before ?? undefined
  }
  return Object.keys(then)
    .map((name) => ({ name, before: now.vars[name], after: then[name] }))
    .filter(({ before, after }) => !sameDefinition(before, after))
}

/** The change that made a variable what it is, of those after a version. */
export function latestOf(changes: Change[], name: string, after: number): Change | undefined {
  return changes.find((change) => change.version > after && name in change.changed)
}
