/** Changes that explain a chart: variables that were changed. */
import type { Annotation } from '../../questions/answer'

interface Change {
  at: string
  by: string
  changed: Record<string, unknown>
}

/** Names of variables in one mark; more are counted. */
const NAMES_MAX = 3

/** Returns a mark for each change of variables, with a link to the first of them. */
export function annotationsOf(changes: readonly Change[], hrefOf: (variable: string) => string): Annotation[] {
  return changes.map(({ at, by, changed }) => {
    const names = Object.keys(changed)
    const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : ''
    return {
      at: Date.parse(at) / 1000,
      text: `${names.slice(0, NAMES_MAX).join(', ')}${more} changed by ${by}`,
      href: hrefOf(names[0] ?? ''),
    }
  })
}
