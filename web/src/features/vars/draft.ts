/** The form of a variable. All values are text; errors are reported by field. */
import { isEqual, parse, stringify, stringifyPretty, type Json } from '../../json'
import { splitList } from '../../lists'
import { fromLocal, toLocal } from '../../zone'
import type { Condition, Definition, Percent } from './definition'

export interface DraftCondition {
  /** Identifies the condition while conditions are reordered. */
  id: number
  name: string
  value: string
  from: string
  /** Empty: no percentage. */
  to: string
  salt: string
  country: string
  platform: string
  version: string
  segment: string
  starts_at: string
  ends_at: string
}

export interface Draft {
  name: string
  value: string
  default: string
  schema: string
  description: string
  starts_at: string
  ends_at: string
  conditions: DraftCondition[]
}

/** Errors by field path, as the server names fields. */
export type FieldErrors = Record<string, string>

export type ParseResult = { definition: Definition } | { errors: FieldErrors }

const LISTS = ['country', 'platform', 'version', 'segment'] as const
const KEY = /^[A-Za-z0-9._-]{1,100}$/
const KEY_ERROR = 'Use 1 to 100 letters, digits, dots, hyphens or underscores.'

let lastId = 0

/** Returns the form values of a definition; an empty form if there is none. */
export function draftOf(name: string, definition: Definition | undefined, tz: string): Draft {
  const text = (json: Json | undefined) => (json === undefined ? '' : stringifyPretty(json))
  return {
    name,
    value: text(definition?.value),
    default: text(definition?.default),
    schema: text(definition?.schema),
    description: definition?.description ?? '',
    starts_at: toLocal(definition?.starts_at, tz),
    ends_at: toLocal(definition?.ends_at, tz),
    conditions: (definition?.conditions ?? []).map((condition) => draftCondition(condition, tz)),
  }
}

export function emptyCondition(names: string[]): DraftCondition {
  let number = 1
  while (names.includes(`variant-${number}`)) number += 1
  return draftCondition({ name: `variant-${number}`, value: null }, 'UTC', '')
}

function draftCondition(condition: Condition, tz: string, value = stringifyPretty(condition.value)): DraftCondition {
  const { name, percent, country, platform, version, segment, starts_at, ends_at } = condition
  const joined = (list: string[] | undefined) => (list ?? []).join(', ')
  return {
    id: ++lastId,
    name,
    value,
    from: percent?.from === undefined ? '' : digits(percent.from),
    to: percent ? digits(percent.to) : '',
    salt: percent?.salt ?? '',
    country: joined(country),
    platform: joined(platform),
    version: joined(version),
    segment: joined(segment),
    starts_at: toLocal(starts_at, tz),
    ends_at: toLocal(ends_at, tz),
  }
}

/** 25.0 and 25 are the same percentage: the form shows the shorter one. */
function digits(value: number): string {
  return String(Number(stringify(value as Json)))
}

/** Parses a draft into a definition, or returns its errors. Times that were not edited keep the milliseconds of `base`. */
export function parseDraft(draft: Draft, tz: string, base?: Definition): ParseResult {
  const errors: FieldErrors = {}
  if (!KEY.test(draft.name)) errors.name = KEY_ERROR
  const definition: Definition = { value: parseField(draft.value, 'value', errors) ?? null }
  if (draft.default.trim()) definition.default = parseField(draft.default, 'default', errors) ?? null
  if (draft.schema.trim()) definition.schema = parseField(draft.schema, 'schema', errors) ?? null
  if (draft.description.trim()) definition.description = draft.description.trim()
  Object.assign(definition, times(draft, base, '', tz, errors))
  const conditions = draft.conditions.map((condition, i) => {
    const before = base?.conditions?.find(({ name }) => name === condition.name)
    return parseCondition(condition, `conditions[${i}]`, before, tz, errors)
  })
  if (conditions.length > 0) definition.conditions = conditions
  return Object.keys(errors).length > 0 ? { errors } : { definition }
}

function parseCondition(
  draft: DraftCondition,
  at: string,
  base: Condition | undefined,
  tz: string,
  errors: FieldErrors,
): Condition {
  if (!KEY.test(draft.name)) errors[`${at}.name`] = KEY_ERROR
  const condition: Condition = {
    name: draft.name,
    value: parseField(draft.value, `${at}.value`, errors) ?? null,
  }
  for (const name of LISTS) {
    const list = splitList(draft[name])
    if (list.length > 0) condition[name] = name === 'country' ? list.map((it) => it.toUpperCase()) : list
  }
  const percent = parsePercent(draft, `${at}.percent`, errors)
  if (percent) condition.percent = percent
  return { ...condition, ...times(draft, base, `${at}.`, tz, errors) }
}

function parsePercent(draft: DraftCondition, at: string, errors: FieldErrors): Percent | undefined {
  const { from, to, salt } = draft
  if (!to.trim() && !from.trim()) return undefined
  const [low, high] = [Number(from || '0'), Number(to.trim() || NaN)]
  if (!(low >= 0 && low < 100)) errors[`${at}.from`] = 'Enter a number from 0 to 100.'
  if (!(high > low && high <= 100)) errors[`${at}.to`] = 'Enter a number up to 100 that is greater than the start.'
  const percent: Percent = low > 0 ? { from: low, to: high } : { to: high }
  return salt.trim() ? { ...percent, salt: salt.trim() } : percent
}

type Times = Pick<Definition, 'starts_at' | 'ends_at'>

function times(draft: Times, base: Times | undefined, at: string, tz: string, errors: FieldErrors): Times {
  const result: Times = {}
  for (const name of ['starts_at', 'ends_at'] as const) {
    const local = draft[name]
    if (!local) continue
    const untouched = base?.[name] !== undefined && toLocal(base[name], tz) === local
    const time = untouched ? base[name] : fromLocal(local, tz)
    if (time) result[name] = time
    else errors[`${at}${name}`] = 'Enter a date and a time.'
  }
  const { starts_at, ends_at } = result
  if (starts_at && ends_at && Date.parse(ends_at) <= Date.parse(starts_at)) {
    errors[`${at}ends_at`] = 'The end must be after the start.'
  }
  return result
}

function parseField(text: string, at: string, errors: FieldErrors): Json | undefined {
  const error = jsonError(text)
  if (error) errors[at] = error
  return error ? undefined : parse(text)
}

/** Returns the error of a text that is not valid JSON; `undefined` if it is valid. */
export function jsonError(text: string): string | undefined {
  if (text.trim() === '') return 'Enter a JSON value, such as 1.5, true, "text", [1, 2] or {"a": 1}.'
  try {
    parse(text)
    return undefined
  } catch (error) {
    return `This is not valid JSON. ${hint(text)}${(error as SyntaxError).message}.`
  }
}

function hint(text: string): string {
  return /^[\p{L}_][\p{L}\p{N} _-]*$/u.test(text.trim()) ? `Put text in quotes: "${text.trim()}". ` : ''
}

/** Returns the body of the request that writes the definition. */
export function bodyOf(definition: Definition, expectedVersion: number): string {
  return stringify({ ...definition, expected_version: expectedVersion } as unknown as Json)
}

/** Serializes a definition for a diff, one field per line; empty if there is none. */
export function textOf(definition: Definition | null | undefined): string {
  const fields = Object.entries(definition ?? {}) as [string, Json][]
  return fields.map(([name, value]) => `${name}: ${stringifyPretty(value)}`).join('\n')
}

export function isSameDefinition(a: Definition | undefined, b: Definition | undefined): boolean {
  return isEqual(a as Json | undefined, b as Json | undefined)
}

/**
 * Returns the form field at which to show an error of the server: its field, or the innermost one that contains it.
 * `value.speed[2]` is shown at `value`. Empty if the form has no such field.
 */
export function nearestField(field: string | undefined, fields: string[]): string {
  const containing = fields.filter((name) => isWithin(field ?? '', name))
  return containing.sort((a, b) => b.length - a.length)[0] ?? ''
}

function isWithin(field: string, name: string): boolean {
  const next = field.charAt(name.length)
  return field.startsWith(name) && (next === '' || next === '.' || next === '[' || next === '/')
}

/** Returns the paths of all fields in the form of a draft. */
export function formFields(draft: Draft): string[] {
  const top = ['name', 'value', 'default', 'schema', 'description', 'starts_at', 'ends_at']
  const each = ['name', 'value', ...LISTS, 'percent.from', 'percent.to', 'percent.salt', 'starts_at', 'ends_at']
  return [...top, ...draft.conditions.flatMap((_, i) => each.map((name) => `conditions[${i}].${name}`))]
}

/** Serializes the input of a draft, to detect edits. */
export function serializeDraft(draft: Draft): string {
  return JSON.stringify({ ...draft, conditions: draft.conditions.map((it) => ({ ...it, id: 0 })) })
}

/** Moves an item of a list; returns the same list if the target is out of range. */
export function moveItem<T>(list: T[], from: number, to: number): T[] {
  const item = list[from]
  if (item === undefined || to < 0 || to >= list.length) return list
  const rest = list.filter((_, i) => i !== from)
  return [...rest.slice(0, to), item, ...rest.slice(to)]
}
