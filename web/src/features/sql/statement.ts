/** Finds the statements of a SQL text. */

/** A statement from `from` to `to`, without the semicolon and blanks around it. */
export interface Statement {
  from: number
  to: number
}

/** The parts in which a semicolon ends nothing: comments, texts, names in quotes and texts between dollar signs. */
const OPAQUE = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|\$(\w*)\$[\s\S]*?(?:\$\1\$|$)|;/g

/** Returns the statements of a text, in order. Comments around a statement belong to it. */
export function statements(text: string): Statement[] {
  const found: Statement[] = []
  let start = 0
  const add = (end: number) => {
    const part = text.slice(start, end)
    const from = start + (part.length - part.trimStart().length)
    const to = start + part.trimEnd().length
    if (to > from) found.push({ from, to })
    start = end + 1
  }
  for (const match of text.matchAll(OPAQUE)) if (match[0] === ';') add(match.index)
  add(text.length)
  return found
}

/** Returns the statement at a position: the one that contains it, or the last before it. */
export function statementAt(text: string, at: number): Statement | undefined {
  const all = statements(text)
  return all.findLast(({ from }) => from <= at) ?? all[0]
}
