/** Cohorts: their definitions as the API has them, and as the form edits them. */
import { OPS, takesValue, toConditions, type Comparison, type Filter } from '../../questions/conditions'

export interface CohortState {
  name: string
  description?: string | null
  condition?: unknown
  seen_within_days?: number | null
  /** Only in the answer about one cohort. */
  players?: string[] | null
  kind: 'condition' | 'list'
  /** `null` until the players were found for the first time. */
  size: number | null
  evaluated_at: string | null
  failure: string | null
  used_by: { kind: string; name: string }[]
}

/** A rule of the form: the player had an event, or the latest value of a property meets a condition. */
export interface Rule {
  /** The rule must not hold. */
  negated: boolean
  kind: 'event' | 'property'
  event: string
  where: Filter[]
  atLeast: number
  /** Empty until it is chosen. */
  comparison: Comparison[]
  days: number
}

export interface CohortForm {
  name: string
  description: string
  kind: 'condition' | 'list'
  match: 'and' | 'or'
  rules: Rule[]
  /** One id per line. */
  players: string
}

export const DAYS_DEFAULT = 30
export const NAME_PATTERN = /^[A-Za-z0-9._-]{1,64}$/

export const newRule = (kind: Rule['kind']): Rule => ({
  negated: false,
  kind,
  event: '',
  where: [],
  atLeast: 1,
  comparison: [],
  days: DAYS_DEFAULT,
})

export const newForm = (): CohortForm => ({ name: '', description: '', kind: 'condition', match: 'and', rules: [], players: '' })

const isComplete = (rule: Rule) => (rule.kind === 'event' ? rule.event !== '' : rule.comparison.length > 0)

/** Returns the members as requests have them; `undefined` while nothing is chosen. */
export function membersOf(form: CohortForm): { condition: object } | { players: string[] } | undefined {
  if (form.kind === 'list') {
    const players = playersOf(form.players)
    return players.length > 0 ? { players } : undefined
  }
  const rules = form.rules.filter(isComplete).map(toRequestRule)
  const [first] = rules
  if (!first) return undefined
  return { condition: rules.length === 1 ? first : { [form.match]: rules } }
}

export function playersOf(text: string): string[] {
  return [...new Set(text.split('\n').map((line) => line.trim()))].filter(Boolean)
}

function toRequestRule({ negated, kind, event, where, atLeast, comparison, days }: Rule): object {
  const [condition] = toConditions([comparison])
  const rule =
    kind === 'event'
      ? { event, ...(where.length > 0 ? { where: toConditions(where) } : {}), at_least: atLeast, within_days: days }
      : { ...condition, within_days: days }
  return negated ? { not: rule } : rule
}

/** Returns the form of a cohort; `undefined` if its condition has groups within groups, which the form cannot show. */
export function formOf(cohort: CohortState): CohortForm | undefined {
  const form = { ...newForm(), name: cohort.name, description: cohort.description ?? '' }
  if (cohort.kind === 'list') return { ...form, kind: 'list', players: (cohort.players ?? []).join('\n') }
  const { and, or } = record(cohort.condition)
  const list = Array.isArray(and) ? and : Array.isArray(or) ? or : [cohort.condition]
  const rules = list.map(readRule)
  return rules.every((rule) => rule !== undefined) ? { ...form, match: Array.isArray(or) ? 'or' : 'and', rules } : undefined
}

const record = (value: unknown) => (typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {})

function readRule(value: unknown): Rule | undefined {
  const { not } = record(value)
  const fields = record(not ?? value)
  const days = typeof fields['within_days'] === 'number' ? fields['within_days'] : DAYS_DEFAULT
  const negated = not !== undefined
  if (typeof fields['event'] === 'string') {
    const where = (Array.isArray(fields['where']) ? fields['where'] : []).map(readFilter)
    const atLeast = typeof fields['at_least'] === 'number' ? fields['at_least'] : 1
    return where.every((filter) => filter !== undefined) ? { ...newRule('event'), negated, event: fields['event'], where, atLeast, days } : undefined
  }
  const comparison = readComparison(fields)
  return comparison && { ...newRule('property'), negated, comparison: [comparison], days }
}

function readFilter(value: unknown): Filter | undefined {
  const { or } = record(value)
  const filter = (Array.isArray(or) ? or : [value]).map((one) => readComparison(record(one)))
  return filter.every((comparison) => comparison !== undefined) ? filter : undefined
}

function readComparison({ property, op, value }: Record<string, unknown>): Comparison | undefined {
  const known = OPS.find((name) => name === op)
  if (typeof property !== 'string' || !known) return undefined
  const values = !takesValue(known) ? [] : Array.isArray(value) ? value : [value]
  return { property, op: known, values: values.map(String) }
}

/** `variable speed, question q1`. */
export function usersText({ used_by }: CohortState): string {
  return used_by.map(({ kind, name }) => `${kind} ${name}`).join(', ')
}

/** `payers-2026-11-20`: the name of a list that keeps the players of a day. */
export function frozenName(name: string, today: string): string {
  return `${name.slice(0, 64 - today.length - 1)}-${today}`
}
