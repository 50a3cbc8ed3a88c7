/** Descriptions of variables and their conditions, for display. */
import { countryName, dayAndMinute, percent } from '../../format'
import { ExactNumber, isEqual, stringify, type Json } from '../../json'
import type { Condition, Definition, Percent } from './definition'

const PLATFORMS: Record<string, string> = {
  ios: 'iOS',
  android: 'Android',
  macos: 'macOS',
  windows: 'Windows',
  linux: 'Linux',
}
const AUTHORS: Record<string, string> = {
  person: 'a dashboard user',
  server: 'a secret key',
  public: 'the public key',
}

/** Describes the players that match a condition: `25% of players in FR on web`. */
export function describeAudience(condition: Condition, tz: string): string {
  const parts = [
    condition.percent ? describePercent(condition.percent) : 'players',
    listed('in', condition.country),
    listed('on', condition.platform?.map((name) => PLATFORMS[name] ?? name)),
    listed('with version', condition.version),
    listed('in segment', condition.segment),
    describePeriod(condition, tz),
  ]
  const text = parts.filter(Boolean).join(' ')
  return text === 'players' ? 'all players' : text
}

/** Describes a condition with its value: `25% of players in FR on web: "fast"`. */
export function describeCondition(condition: Condition, tz: string): string {
  return `${describeAudience(condition, tz)}: ${shortJson(condition.value)}`
}

/** Describes a schedule: `from 20 Nov, 00:00 until 21 Nov, 00:00`; empty if there is none. */
export function describePeriod({ starts_at, ends_at }: Pick<Definition, 'starts_at' | 'ends_at'>, tz: string) {
  const from = starts_at && `from ${dayAndMinute(starts_at, tz)}`
  const until = ends_at && `until ${dayAndMinute(ends_at, tz)}`
  return [from, until].filter(Boolean).join(' ')
}

/** Returns the names of countries, separated by commas. */
export function countryNames(codes: string[]): string {
  return codes.map(countryName).join(', ')
}

/** Serializes a value, cut to a maximum length. */
export function shortJson(value: Json, charactersMax = 80): string {
  const text = stringify(value)
  return text.length <= charactersMax ? text : `${text.slice(0, charactersMax - 1)}…`
}

/**
 * Returns why a player gets a value other than the default one: the name of the condition, or `fallback` outside of
 * the schedule. Empty for the default value.
 */
export function valueSource(definition: Definition, value: Json): string {
  if (isEqual(definition.value, value)) return ''
  const condition = definition.conditions?.find((condition) => isEqual(condition.value, value))
  return condition?.name ?? 'fallback'
}

/** Describes the author of a change. */
export function describeAuthor(by: string): string {
  return AUTHORS[by] ?? by
}

function describePercent({ from, to, salt }: Percent): string {
  const [low, high] = [Number(exact(from ?? 0)), Number(exact(to))]
  const size = `${percent((high - low) / 100, 3)} of players`
  const details = [low > 0 && `${trim(low)} to ${trim(high)}`, salt && `seed “${salt}”`].filter(Boolean)
  return details.length > 0 ? `${size} (${details.join(', ')})` : size
}

/** Returns the text of a number, which may have been parsed with its text. */
export function exact(value: number | ExactNumber): string {
  return value instanceof ExactNumber ? value.text : String(value)
}

/** Percentages have at most three decimals. */
function trim(value: number): string {
  return String(Number(value.toFixed(3)))
}

function listed(preposition: string, names: string[] | undefined): string {
  if (!names?.length) return ''
  const last = names.length > 1 ? ` or ${names.at(-1)}` : ''
  return `${preposition} ${names.slice(0, names.length > 1 ? -1 : undefined).join(', ')}${last}`
}
