/** Conditions as a person would say them. */
import { countryName, dayAndMinute } from '../../format'
import { Exact, same, write, type Json } from '../../json'
import type { Condition, Definition, Percent } from './definition'

const PLATFORMS: Record<string, string> = {
  ios: 'iOS',
  android: 'Android',
  macos: 'macOS',
  windows: 'Windows',
  linux: 'Linux',
}
const CALLERS: Record<string, string> = {
  person: 'somebody in the dashboard',
  server: 'a secret key',
  public: 'the public key',
}

/** `25 % of players in FR on web`. */
export function audience(condition: Condition, tz: string): string {
  const parts = [
    condition.percent ? share(condition.percent) : 'players',
    listed('in', condition.country),
    listed('on', condition.platform?.map((name) => PLATFORMS[name] ?? name)),
    listed('with version', condition.version),
    listed('in segment', condition.segment),
    window(condition, tz),
  ]
  const said = parts.filter(Boolean).join(' ')
  return said === 'players' ? 'all players' : said
}

/** `25 % of players in FR on web: "fast"`. */
export function sentenceOf(condition: Condition, tz: string): string {
  return `${audience(condition, tz)}: ${short(condition.value)}`
}

/** ` from 20 Nov, 00:00 until 21 Nov, 00:00`; nothing without times. */
export function window({ starts_at, ends_at }: Pick<Definition, 'starts_at' | 'ends_at'>, tz: string) {
  const from = starts_at && `from ${dayAndMinute(starts_at, tz)}`
  const until = ends_at && `until ${dayAndMinute(ends_at, tz)}`
  return [from, until].filter(Boolean).join(' ')
}

/** Countries by name, for a longer explanation. */
export function countries(codes: string[]): string {
  return codes.map(countryName).join(', ')
}

/** A value where room is short. */
export function short(value: Json, charactersMax = 80): string {
  const text = write(value)
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`
}

/** `number`, `text`, `list`: what kind of thing a value is. */
export function kind(value: Json): string {
  if (value === null) return 'nothing'
  if (value instanceof Exact || typeof value === 'number') return 'number'
  if (typeof value === 'string') return 'text'
  if (typeof value === 'boolean') return 'yes or no'
  return Array.isArray(value) ? 'list' : 'object'
}

/** Why somebody gets a value that is not what everybody gets: by a condition, or at a time that is not its own. */
export function whence(definition: Definition, value: Json): string {
  if (same(definition.value, value)) return ''
  const condition = definition.conditions?.find((condition) => same(condition.value, value))
  return condition?.name ?? 'default'
}

export function caller(by: string): string {
  return CALLERS[by] ?? by
}

function share({ from, to, salt }: Percent): string {
  const [low, high] = [Number(exact(from ?? 0)), Number(exact(to))]
  const size = `${trim(high - low)} % of players`
  const part = low > 0 ? `${size} (${trim(low)} to ${trim(high)})` : size
  return salt ? `${part} by “${salt}”` : part
}

/** A number may have come with its text. */
function exact(value: number | Exact): string {
  return value instanceof Exact ? value.text : String(value)
}

/** Three decimals are all that a share has. */
function trim(value: number): string {
  return String(Number(value.toFixed(3)))
}

function listed(preposition: string, names: string[] | undefined): string {
  if (!names?.length) return ''
  const last = names.length > 1 ? ` or ${names.at(-1)}` : ''
  return `${preposition} ${names.slice(0, names.length > 1 ? -1 : undefined).join(', ')}${last}`
}
