/** A variable while it is edited: everything is text, and what is wrong is known by field. */
import { parse, pretty, same, write, type Json } from '../../json'
import { listOf } from '../../lists'
import { fromLocal, toLocal } from '../../zone'
import type { Condition, Definition, Percent } from './definition'

export interface DraftCondition {
  /** Tells it from the others while they change places. */
  id: number
  name: string
  value: string
  from: string
  /** Empty: not a share of the players. */
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

/** What is wrong, by the field's path as the server names it. */
export type Wrongs = Record<string, string>

export type Read = { definition: Definition } | { wrongs: Wrongs }

const LISTS = ['country', 'platform', 'version', 'segment'] as const
const KEY = /^[A-Za-z0-9._-]{1,100}$/
const KEY_WRONG = '1 to 100 letters, digits, dots, dashes and underscores.'

let lastId = 0

/** What a form shows of a definition; of nothing: an empty form. */
export function draftOf(name: string, definition: Definition | undefined, tz: string): Draft {
  const text = (json: Json | undefined) => (json === undefined ? '' : pretty(json))
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

function draftCondition(condition: Condition, tz: string, value = pretty(condition.value)): DraftCondition {
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

/** 25.0 and 25 are the same share, and a form says it the short way. */
function digits(value: number): string {
  return String(Number(write(value as Json)))
}

/** What a draft says, or what is wrong with it. `base` keeps times to the millisecond where they were not touched. */
export function read(draft: Draft, tz: string, base?: Definition): Read {
  const wrongs: Wrongs = {}
  if (!KEY.test(draft.name)) wrongs.name = KEY_WRONG
  const definition: Definition = { value: json(draft.value, 'value', wrongs) ?? null }
  if (draft.default.trim()) definition.default = json(draft.default, 'default', wrongs) ?? null
  if (draft.schema.trim()) definition.schema = json(draft.schema, 'schema', wrongs) ?? null
  if (draft.description.trim()) definition.description = draft.description.trim()
  Object.assign(definition, times(draft, base, '', tz, wrongs))
  const conditions = draft.conditions.map((condition, i) => {
    const before = base?.conditions?.find(({ name }) => name === condition.name)
    return readCondition(condition, `conditions[${i}]`, before, tz, wrongs)
  })
  if (conditions.length > 0) definition.conditions = conditions
  return Object.keys(wrongs).length > 0 ? { wrongs } : { definition }
}

function readCondition(
  draft: DraftCondition,
  at: string,
  base: Condition | undefined,
  tz: string,
  wrongs: Wrongs,
): Condition {
  if (!KEY.test(draft.name)) wrongs[`${at}.name`] = KEY_WRONG
  const condition: Condition = {
    name: draft.name,
    value: json(draft.value, `${at}.value`, wrongs) ?? null,
  }
  for (const name of LISTS) {
    const list = listOf(draft[name])
    if (list.length > 0) condition[name] = name === 'country' ? list.map((it) => it.toUpperCase()) : list
  }
  const percent = readPercent(draft, `${at}.percent`, wrongs)
  if (percent) condition.percent = percent
  return { ...condition, ...times(draft, base, `${at}.`, tz, wrongs) }
}

function readPercent(draft: DraftCondition, at: string, wrongs: Wrongs): Percent | undefined {
  const { from, to, salt } = draft
  if (!to.trim() && !from.trim()) return undefined
  const [low, high] = [Number(from || '0'), Number(to.trim() || NaN)]
  if (!(low >= 0 && low < 100)) wrongs[`${at}.from`] = 'A number from 0 to 100.'
  if (!(high > low && high <= 100)) wrongs[`${at}.to`] = 'A number up to 100, greater than where it begins.'
  const percent: Percent = low > 0 ? { from: low, to: high } : { to: high }
  return salt.trim() ? { ...percent, salt: salt.trim() } : percent
}

type Times = Pick<Definition, 'starts_at' | 'ends_at'>

function times(draft: Times, base: Times | undefined, at: string, tz: string, wrongs: Wrongs): Times {
  const told: Times = {}
  for (const name of ['starts_at', 'ends_at'] as const) {
    const local = draft[name]
    if (!local) continue
    const untouched = base?.[name] !== undefined && toLocal(base[name], tz) === local
    const time = untouched ? base[name] : fromLocal(local, tz)
    if (time) told[name] = time
    else wrongs[`${at}${name}`] = 'A date and a time.'
  }
  const { starts_at, ends_at } = told
  if (starts_at && ends_at && Date.parse(ends_at) <= Date.parse(starts_at)) {
    wrongs[`${at}ends_at`] = 'It ends before it begins.'
  }
  return told
}

function json(text: string, at: string, wrongs: Wrongs): Json | undefined {
  const wrong = wrongWithJson(text)
  if (wrong) wrongs[at] = wrong
  return wrong ? undefined : parse(text)
}

/** Why a text is no JSON, and what would be. */
export function wrongWithJson(text: string): string | undefined {
  if (text.trim() === '') return 'A value, as JSON: 1.5, true, "text", [1, 2] or {"a": 1}.'
  try {
    parse(text)
    return undefined
  } catch (error) {
    return `This is not JSON. ${hint(text)}${(error as SyntaxError).message}.`
  }
}

function hint(text: string): string {
  return /^[\p{L}_][\p{L}\p{N} _-]*$/u.test(text.trim()) ? `Text stands in quotes: "${text.trim()}". ` : ''
}

/** The body of the request that writes it. */
export function bodyOf(definition: Definition, expectedVersion: number): string {
  return write({ ...definition, expected_version: expectedVersion } as unknown as Json)
}

/** A definition as text for a diff, each field on a line of its own; nothing where there is none. */
export function textOf(definition: Definition | null | undefined): string {
  const fields = Object.entries(definition ?? {}) as [string, Json][]
  return fields.map(([name, value]) => `${name}: ${pretty(value)}`).join('\n')
}

export function sameDefinition(a: Definition | undefined, b: Definition | undefined): boolean {
  return same(a as Json | undefined, b as Json | undefined)
}

/**
 * Where in a form a problem of the server belongs: its field, or the nearest one around it. `value.speed[2]` is said at
 * `value`; what is about nothing in the form, at `''`.
 */
export function place(field: string | undefined, fields: string[]): string {
  const around = fields.filter((name) => isWithin(field ?? '', name))
  return around.sort((a, b) => b.length - a.length)[0] ?? ''
}

function isWithin(field: string, name: string): boolean {
  const next = field.charAt(name.length)
  return field.startsWith(name) && (next === '' || next === '.' || next === '[' || next === '/')
}

/** Every field that a form of this draft shows. */
export function fieldsOf(draft: Draft): string[] {
  const top = ['name', 'value', 'default', 'schema', 'description', 'starts_at', 'ends_at']
  const each = ['name', 'value', ...LISTS, 'percent.from', 'percent.to', 'percent.salt', 'starts_at', 'ends_at']
  return [...top, ...draft.conditions.flatMap((_, i) => each.map((name) => `conditions[${i}].${name}`))]
}

/** Everything that was typed, to be compared. */
export function typed(draft: Draft): string {
  return JSON.stringify({ ...draft, conditions: draft.conditions.map((it) => ({ ...it, id: 0 })) })
}

/** Moves one of a list; the list stays as it is where there is no such place. */
export function moved<T>(list: T[], from: number, to: number): T[] {
  const item = list[from]
  if (item === undefined || to < 0 || to >= list.length) return list
  const rest = list.filter((_, i) => i !== from)
  return [...rest.slice(0, to), item, ...rest.slice(to)]
}
