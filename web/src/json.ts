/**
 * JSON that keeps the text of its numbers: 1.0 stays 1.0, and a number of twenty digits is not rounded as it
 * would be by `JSON.parse`.
 */

/** A number whose text would be lost in a JavaScript number. */
export class ExactNumber {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type Json = null | boolean | number | string | ExactNumber | Json[] | { [name: string]: Json }

/** Objects and arrays longer than this are split over several lines. */
const LINE_CHARACTERS = 60

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/** Parses JSON. Throws a `SyntaxError` that names the position of the error. */
export function parse(text: string): Json {
  JSON.parse(text)
  const prefix = unusedPrefix(text)
  const marked = text.replace(STRING_OR_NUMBER, (token) => {
    const isWhole = token.startsWith('"') || String(Number(token)) === token
    return isWhole ? token : `"${prefix}${token}"`
  })
  return JSON.parse(marked, (_name, value: unknown) =>
    typeof value === 'string' && value.startsWith(prefix) ? new ExactNumber(value.slice(prefix.length)) : value,
  ) as Json
}

/** Serializes a value on one line. */
export function stringify(value: Json): string {
  if (value instanceof ExactNumber) return value.text
  if (Array.isArray(value)) return `[${value.map(stringify).join(', ')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, it]) => `${JSON.stringify(name)}: ${stringify(it)}`)
  return `{${fields.join(', ')}}`
}

/** Serializes a value, split over several lines where one line would be too long. */
export function stringifyPretty(value: Json, indent = ''): string {
  const line = stringify(value)
  const isScalar = value === null || typeof value !== 'object' || value instanceof ExactNumber
  if (isScalar || line.length + indent.length <= LINE_CHARACTERS) return line
  const innerIndent = `${indent}  `
  if (Array.isArray(value)) return joinLines('[', value.map((it) => stringifyPretty(it, innerIndent)), ']', indent)
  const fields = Object.entries(value).map(
    ([name, it]) => `${JSON.stringify(name)}: ${stringifyPretty(it, innerIndent)}`,
  )
  return joinLines('{', fields, '}', indent)
}

/** Returns true if the values are equal, comparing numbers by their text and ignoring the order of fields. */
export function isEqual(a: Json | undefined, b: Json | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return canonical(a) === canonical(b)
}

function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (value === null || typeof value !== 'object' || value instanceof ExactNumber) return stringify(value)
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, it]) => `${JSON.stringify(name)}:${canonical(it)}`).join()}}`
}

function joinLines(open: string, parts: string[], close: string, indent: string): string {
  return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(',\n')}\n${indent}${close}`
}

/** Returns private-use characters that do not occur in the text, to mark numbers with. */
function unusedPrefix(text: string): string {
  let prefix = '\uE000'
  while (text.includes(prefix)) prefix += '\uE000'
  return prefix
}
