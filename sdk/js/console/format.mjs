/** Output: pretty JSON, in colour on a terminal. */
import { STATUS_CODES } from 'node:http'
import { inspect } from 'node:util'
import { ApiResponse } from './session.mjs'

const COLORS = { key: 36, string: 32, number: 33, word: 35, good: 32, bad: 31 }

/** Returns a value as text: a response as its status and body, anything else as JavaScript. */
export function format(value, colors) {
  if (!(value instanceof ApiResponse)) return inspect(value, { colors, depth: 6 })
  const { status, ms, text, body } = value
  const first = `${status} ${STATUS_CODES[status] ?? ''}`.trim()
  const line = `${paint(first, status < 400 ? 'good' : 'bad', colors)}, ${ms} ms, ${Buffer.byteLength(text)} bytes`
  return body === undefined ? line : `${line}\n${formatBody(body, colors)}`
}

/** Returns a body as pretty JSON, or as it is if it is text. */
export function formatBody(body, colors) {
  if (typeof body === 'string') return body.replace(/\n$/, '')
  const json = JSON.stringify(body, null, 2)
  if (!colors) return json
  const token = /("(?:\\.|[^"\\])*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null/g
  return json.replace(token, (all, string, colon) => {
    if (colon) return paint(string, 'key', true) + colon
    return paint(all, string ? 'string' : /^[tfn]/.test(all) ? 'word' : 'number', true)
  })
}

function paint(text, color, colors) {
  return colors ? `\u001b[${COLORS[color]}m${text}\u001b[39m` : text
}
