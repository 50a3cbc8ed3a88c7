/**
 * An event and conditions on it, such as a step of a funnel. In a URL: `level_start;level,=,3`; a backslash escapes `;`
 * and itself in the event's name.
 */
import { describeFilter, formatFilter, parseFilter, toConditions, type Filter } from './conditions'

export interface EventPattern {
  event: string
  where: Filter[]
}

export const newPattern = (event: string): EventPattern => ({ event, where: [] })

export function formatPattern({ event, where }: EventPattern): string {
  return [event.replaceAll('\\', '\\\\'), ...where.map(formatFilter)].map((part) => part.replaceAll(';', '\\;')).join(';')
}

/** Reads a pattern of a URL; `undefined` if it is invalid. */
export function parsePattern(text: string): EventPattern | undefined {
  const [event = '', ...filters] = split(text)
  const where = filters.map(parseFilter)
  const name = event.replaceAll('\\\\', '\\')
  return name !== '' && where.every((filter) => filter !== undefined) ? { event: name, where } : undefined
}

/** Splits at `;`. An escaped `;` loses its backslash; other escapes stay. */
function split(text: string): string[] {
  const parts = ['']
  const add = (part: string) => void (parts[parts.length - 1] += part)
  for (let i = 0; i < text.length; i += 1) {
    const char = text[i] ?? ''
    if (char === ';') parts.push('')
    else if (char !== '\\') add(char)
    else {
      i += 1
      add(text[i] === ';' ? ';' : `\\${text[i] ?? ''}`)
    }
  }
  return parts
}

/** Returns the pattern as requests have it. */
export function toRequestPattern({ event, where }: EventPattern): object {
  return where.length > 0 ? { event, where: toConditions(where) } : { event }
}

/** `level_start, level is 3`. */
export function patternName({ event, where }: EventPattern): string {
  return [event, ...where.map(describeFilter)].join(', ')
}

/** Returns the start event of a game: a session, or what happens most. */
export function defaultStart(events: readonly { name: string }[]): EventPattern | undefined {
  const name = ['$session_start', 'session_start', '$play'].find((name) => events.some((event) => event.name === name)) ?? events[0]?.name
  return name === undefined ? undefined : newPattern(name)
}
