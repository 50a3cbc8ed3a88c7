/** Grid lines of a count axis, chosen so that they rarely move. */

/** The approximate number of grid lines above zero. */
const LINES = 4

/** Returns the number of 1, 2, 5, 10, 20, 25, 50, ... that divides `value` into about `LINES` steps. */
export function gridStep(value: number): number {
  const target = Math.max(value / LINES, 1)
  const power = 10 ** Math.floor(Math.log10(target))
  const factors = power === 1 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]
  const factor = factors.find((candidate) => candidate * power >= target) ?? 10
  return factor * power
}

/** Returns the top of the axis: the first grid line at or above `value` and `min`. */
export function axisTop(value: number, min: number): number {
  const high = Math.max(value, min)
  return Math.ceil(high / gridStep(high)) * gridStep(high)
}

/** Returns the grid lines from zero to `high`, which is a result of `axisTop`. */
export function gridLines(high: number): number[] {
  const step = gridStep(high)
  return Array.from({ length: Math.round(high / step) + 1 }, (_, i) => i * step)
}
