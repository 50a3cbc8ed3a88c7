/**
 * A mean opinion score in words. This is the one place that says where each word begins.
 *
 * The scores are those of R = 90, 80, 70 and 60 by ITU-T G.107, annex B, at which users change from very satisfied to
 * satisfied, some, many and nearly all dissatisfied, cut to a tenth.
 */

export interface Band {
  word: 'excellent' | 'good' | 'fair' | 'poor' | 'bad'
  /** The lowest score of the word. */
  from: number
}

/** The best first. */
export const BANDS: readonly [Band, ...Band[]] = [
  { word: 'excellent', from: 4.3 },
  { word: 'good', from: 4.0 },
  { word: 'fair', from: 3.6 },
  { word: 'poor', from: 3.1 },
  { word: 'bad', from: 1 },
]
export type Word = Band['word']

/** The tenths of the server's spread: the first is 1.0 to 1.1. */
export const TENTHS = 36

export function wordOf(mos: number): Word {
  return BANDS.find(({ from }) => mos >= from)?.word ?? 'bad'
}

/** The lowest score of a tenth. */
export function tenthFrom(index: number): number {
  return (10 + index) / 10
}

/** How many flows have each word, the best first. */
export function spreadOf(tenths: number[]): { word: Word; range: string; flows: number; share: number }[] {
  const all = tenths.reduce((sum, flows) => sum + flows, 0)
  return BANDS.map(({ word }, i) => {
    const flows = tenths.reduce((sum, flows, tenth) => sum + (wordOf(tenthFrom(tenth)) === word ? flows : 0), 0)
    return { word, range: rangeOf(i), flows, share: all === 0 ? 0 : flows / all }
  })
}

/** `4.0 to 4.3`. */
function rangeOf(band: number): string {
  const [from, above] = [BANDS[band]?.from ?? 1, BANDS[band - 1]?.from]
  if (above === undefined) return `from ${from.toFixed(1)}`
  return band === BANDS.length - 1 ? `below ${above.toFixed(1)}` : `${from.toFixed(1)} to ${above.toFixed(1)}`
}
