/** Line-by-line diff of two texts. */

export interface DiffLine {
  kind: 'same' | 'removed' | 'added'
  text: string
}

/** Above this product of line counts the diff is not computed: all lines are shown as removed and added. */
const PAIRS_MAX = 1_000_000

/** Returns the lines of both texts in order, with as few changes as possible. Removed lines come before added ones. */
export function diff(before: string, after: string): DiffLine[] {
  const [a, b] = [linesOf(before), linesOf(after)]
  if (a.length * b.length > PAIRS_MAX) return [...toDiffLines('removed', a), ...toDiffLines('added', b)]
  return mergeLines(a, b, commonLengths(a, b))
}

/** `lengths[i][j]` is the length of the longest common subsequence of `a[i..]` and `b[j..]`. */
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

function mergeLines(a: string[], b: string[], lengths: number[][]): DiffLine[] {
  const lines: DiffLine[] = []
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
  return [...lines, ...toDiffLines('removed', a.slice(i)), ...toDiffLines('added', b.slice(j))]
}

function toDiffLines(kind: DiffLine['kind'], lines: string[]): DiffLine[] {
  return lines.map((text) => ({ kind, text }))
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.split('\n')
}
