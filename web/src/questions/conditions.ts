/**
 * Filters of questions: their text in URLs and their form in requests.
 *
 * In a URL, `where=country,in,FR,DE` is one filter, and the parameter is repeated for filters that must all hold.
 * `where=country,=,FR|props.vip,=,true` holds if either side does. A backslash escapes `,`, `|` and itself.
 */

export const OPS = ['=', '!=', '<', '<=', '>', '>=', 'contains', 'in', 'set', 'unset'] as const
export type Op = (typeof OPS)[number]

/** The operators as they are shown. */
export const OP_NAMES: Record<Op, string> = {
  '=': 'is',
  '!=': 'is not',
  '<': '<',
  '<=': '≤',
  '>': '>',
  '>=': '≥',
  contains: 'contains',
  in: 'is one of',
  set: 'is set',
  unset: 'is not set',
}

export interface Comparison {
  property: string
  op: Op
  /** One value, several for `in`, none for `set` and `unset`. */
  values: string[]
}

/** Comparisons of which at least one must hold. */
export type Filter = Comparison[]

/** The property that selects the players of a cohort; only `=` and `!=` are possible. */
export const COHORT = 'cohort'

export const takesValue = (op: Op) => op !== 'set' && op !== 'unset'

/** Reads a filter of a URL; `undefined` if it is invalid. */
export function parseFilter(text: string): Filter | undefined {
  const filter = split(text, '|').map(parseComparison)
  return filter.every((comparison) => comparison !== undefined) ? filter : undefined
}

export function formatFilter(filter: Filter): string {
  return filter
    .map(({ property, op, values }) => [property, op, ...values].map((part) => part.replace(/[\\,|]/g, '\\$&')).join(','))
    .join('|')
}

function parseComparison(text: string): Comparison | undefined {
  const [property, op, ...values] = split(text, ',').map((part) => part.replace(/\\([\\,|])/g, '$1'))
  const known = OPS.find((name) => name === op)
  if (!property || !known) return undefined
  const isComplete = takesValue(known) ? values.length > 0 && (known === 'in' || values.length === 1) : values.length === 0
  return isComplete ? { property, op: known, values } : undefined
}

/** Splits at a separator that no backslash precedes. Escapes stay as they are. */
function split(text: string, separator: string): string[] {
  const parts = ['']
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i] ?? ''
    if (char === separator) parts.push('')
    else parts[parts.length - 1] += char === '\\' ? char + (text[++i] ?? '') : char
  }
  return parts
}

/** Returns `where` of a question over raw events. */
export function toConditions(filters: readonly Filter[]): object[] {
  return filters.map((filter) => (filter.length === 1 ? toCondition(filter[0] as Comparison) : { or: filter.map(toCondition) }))
}

function toCondition({ property, op, values }: Comparison): object {
  const [value = ''] = values
  if (property === COHORT) return op === '!=' ? { not: { cohort: value } } : { cohort: value }
  if (!takesValue(op)) return { property, op }
  if (op === 'in') return { property, op, value: values }
  // A number in an event equals its text, but only numbers have the order of numbers.
  const isNumber = op.startsWith('<') || op.startsWith('>') ? value.trim() !== '' && Number.isFinite(Number(value)) : false
  return { property, op, value: isNumber ? Number(value) : value }
}

/**
 * Returns `where` of `/v1/query`: allowed values by dimension. `undefined` if the filters need raw events: then a
 * property is not one of the dimensions, or a condition is more than a list of values.
 */
export function toDimensionFilter(
  filters: readonly Filter[],
  dimensions: ReadonlySet<string>,
): Record<string, string[]> | undefined {
  const where: Record<string, string[]> = {}
  for (const filter of filters) {
    const [comparison] = filter
    if (filter.length !== 1 || !comparison || !['=', 'in'].includes(comparison.op)) return undefined
    const { property, values } = comparison
    if (!dimensions.has(property) || where[property]) return undefined
    where[property] = values
  }
  return where
}

/** `country is one of FR, DE or platform is web`. */
export function describeFilter(filter: Filter): string {
  return filter
    .map(({ property, op, values }) => [propertyName(property), OP_NAMES[op], values.join(', ')].filter(Boolean).join(' '))
    .join(' or ')
}

/** `props.price` is shown as `price`. */
export function propertyName(property: string): string {
  return property.replace(/^props\./, '')
}
