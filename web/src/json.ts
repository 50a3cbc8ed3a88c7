/**
 * JSON with its numbers as they were written: 1.0 stays 1.0, and a number of twenty digits is not rounded, which
 * `JSON.parse` would do.
 */

/** A number whose text says more than the number would. */
export class Exact {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

export type Json = null | boolean | number | string | Exact | Json[] | { [name: string]: Json }

/** Longer than this, an object or array takes several lines. */
const LINE_CHARACTERS = 60

const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g

/** Reads it, or throws a `SyntaxError` that says where it is wrong. */
export function parse(text: string): Json {
  JSON.parse(text)
  const mark = unused(text)
  const marked = text.replace(STRING_OR_NUMBER, (token) => {
    const isWhole = token.startsWith('"') || String(Number(token)) === token
    return isWhole ? token : `"${mark}${token}"`
  })
  return JSON.parse(marked, (_name, value: unknown) =>
    typeof value === 'string' && value.startsWith(mark) ? new Exact(value.slice(mark.length)) : value,
  ) as Json
}

/** On one line. */
export function write(value: Json): string {
  if (value instanceof Exact) return value.text
  if (Array.isArray(value)) return `[${value.map(write).join(', ')}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, it]) => `${JSON.stringify(name)}: ${write(it)}`)
  return `{${fields.join(', ')}}`
}

/** On as many lines as it is easily read on. */
export function pretty(value: Json, indent = ''): string {
  const line = write(value)
  const isPlain = value === null || typeof value !== 'object' || value instanceof Exact
  if (isPlain || line.length + indent.length <= LINE_CHARACTERS) return line
  const deeper = `${indent}  `
  if (Array.isArray(value)) return lines('[', value.map((it) => pretty(it, deeper)), ']', indent)
  const fields = Object.entries(value).map(
    ([name, it]) => `${JSON.stringify(name)}: ${pretty(it, deeper)}`,
  )
  return lines('{', fields, '}', indent)
}

/** Whether both say the same, to the digit. */
export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return canonical(a) === canonical(b)
}

function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (value === null || typeof value !== 'object' || value instanceof Exact) return write(value)
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${fields.map(([name, it]) => `${JSON.stringify(name)}:${canonical(it)}`).join()}}`
}

function lines(open: string, parts: string[], close: string, indent: string): string {
  return `${open}\n${parts.map((part) => `${indent}  ${part}`).join(',\n')}\n${indent}${close}`
}

/** Characters with which no text in this one begins. */
function unused(text: string): string {
  let mark = '\uE000'
  while (text.includes(mark)) mark += '\uE000'
  return mark
}
