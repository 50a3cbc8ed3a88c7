/** Colour and dash of series. A value keeps its colour through filters and pages. */
import type { AnswerSeries } from './answer'
import { LETTERS } from './question'

export const SLOTS = 7

export interface Pen {
  /** The name of a colour token. */
  color: `series-${number}` | 'series-other'
  /** Lengths of dashes and gaps; empty for a solid line. */
  dash: number[]
}

const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 3], [4, 2], [12, 3, 3, 3, 3, 3]]
const OTHER_PEN: Pen = { color: 'series-other', dash: [] }

/** The colours that values have had, by series id. */
const remembered = new Map<string, number>()
const REMEMBERED_MAX = 5_000

/** Returns the pen of each series, by id. Up to seven series have different pens. */
export function pensOf(series: readonly Pick<AnswerSeries, 'id' | 'letter' | 'isOther' | 'key'>[]): Map<string, Pen> {
  const taken = new Set<number>()
  const pens = new Map<string, Pen>()
  for (const one of series) {
    if (one.isOther) pens.set(one.id, OTHER_PEN)
    else {
      if (taken.size === SLOTS) taken.clear()
      const slot = freeSlot(preferredSlot(one), taken)
      taken.add(slot)
      pens.set(one.id, { color: `series-${slot + 1}`, dash: DASHES[slot] ?? [] })
    }
  }
  return pens
}

function preferredSlot({ id, letter, key }: Pick<AnswerSeries, 'id' | 'letter' | 'key'>): number {
  if (Object.keys(key).length === 0) return Math.max(0, LETTERS.indexOf(letter as (typeof LETTERS)[number]))
  const known = remembered.get(id)
  if (known !== undefined) return known
  const slot = hash(id) % SLOTS
  if (remembered.size >= REMEMBERED_MAX) remembered.clear()
  remembered.set(id, slot)
  return slot
}

function freeSlot(preferred: number, taken: ReadonlySet<number>): number {
  for (let i = 0; i < SLOTS; i += 1) {
    const slot = (preferred + i) % SLOTS
    if (!taken.has(slot)) return slot
  }
  return preferred
}

/** FNV-1a, the same in every browser. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (const char of text) value = Math.imul(value ^ (char.codePointAt(0) ?? 0), 0x01000193)
  return value >>> 0
}
