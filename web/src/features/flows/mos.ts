/**
 * Ratings of mean opinion scores. The thresholds are defined only here.
 *
 * The scores are those of R = 90, 80, 70 and 60 by ITU-T G.107, annex B, at which users change from very satisfied to
 * satisfied, some, many and nearly all dissatisfied, cut to a tenth.
 */

export interface Band {
  rating: 'excellent' | 'good' | 'fair' | 'poor' | 'bad'
  /** The lowest score of the rating. */
  from: number
}

/** Best first. */
export const BANDS: readonly [Band, ...Band[]] = [
  { rating: 'excellent', from: 4.3 },
  { rating: 'good', from: 4.0 },
  { rating: 'fair', from: 3.6 },
  { rating: 'poor', from: 3.1 },
  { rating: 'bad', from: 1 },
]
export type Rating = Band['rating']

/** The number of buckets of the server's MOS histogram: each is 0.1 wide, the first is 1.0 to 1.1. */
export const BUCKETS = 36

export function ratingOf(mos: number): Rating {
  return BANDS.find(({ from }) => mos >= from)?.rating ?? 'bad'
}

/** Returns the lowest score of a bucket. */
export function bucketFrom(index: number): number {
  return (10 + index) / 10
}

/** Returns the number of flows with each rating, best first. */
export function distributionOf(buckets: number[]): { rating: Rating; range: string; flows: number; share: number }[] {
  const total = buckets.reduce((sum, flows) => sum + flows, 0)
  return BANDS.map(({ rating }, i) => {
    const flows = buckets.reduce((sum, flows, bucket) => sum + (ratingOf(bucketFrom(bucket)) === rating ? flows : 0), 0)
    return { rating, range: parseRange(i), flows, share: total === 0 ? 0 : flows / total }
  })
}

/** `4.0 to 4.3`. */
function parseRange(band: number): string {
  const [from, above] = [BANDS[band]?.from ?? 1, BANDS[band - 1]?.from]
  if (above === undefined) return `from ${from.toFixed(1)}`
  return band === BANDS.length - 1 ? `below ${above.toFixed(1)}` : `${from.toFixed(1)} to ${above.toFixed(1)}`
}
