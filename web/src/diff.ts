/** What changed between two texts, line by line. */

export interface Line {
  kind: 'same' | 'removed' | 'added'
  text: string
}

/** Beyond this many pairs of lines, everything is told as removed and added. */
const PAIRS_MAX = 1_000_000

/** The lines of both in order, as few of them as possible marked; of a change, what was removed comes first. */
export function diff(before: string, after: string): Line[] {
  const [a, b] = [linesOf(before), linesOf(after)]
  if (a.length * b.length > PAIRS_MAX) return [...marked('removed', a), ...marked('added', b)]
  return walk(a, b, commonLengths(a, b))
}

/** `lengths[i][j]`: how many lines the rests `a[i..]` and `b[j..]` have in common. */
function commonLengths(a: string[], b: string[]): number[][] {
  const lengths = Array.from({ length: a.length + 1 }, () => new Array<number>(b.length + 1).fill(0))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const at = (i: number, j: number) => lengths[i]?.[j] ?? 0
      const length = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1))
      lengths[i]![j] = length
    }
  }
  return lengths
}

function walk(a: string[], b: string[], lengths: number[][]): Line[] {
  const lines: Line[] = []
  let [i, j] = [0, 0]
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i] ?? '' })
      ;[i, j] = [i + 1, j + 1]
    } else if ((lengths[i + 1]?.[j] ?? 0) >= (lengths[i]?.[j + 1] ?? 0)) {
      lines.push({ kind: 'removed', text: a[i++] ?? '' })
    } else {
      lines.push({ kind: 'added', text: b[j++] ?? '' })
    }
  }
  return [...lines, ...marked('removed', a.slice(i)), ...marked('added', b.slice(j))]
}

function marked(kind: Line['kind'], lines: string[]): Line[] {
  return lines.map((text) => ({ kind, text }))
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.split('\n')
}
