/** Where the lines of a count axis stand, chosen so that they seldom move. */

/** How many lines an axis should have above zero, about. */
const LINES = 4

/** The whole number of 1, 2, 5, 10, 20, 25, 50, ... that cuts `value` into about `LINES` steps. */
export function step(value: number): number {
  const wanted = Math.max(value / LINES, 1)
  const power = 10 ** Math.floor(Math.log10(wanted))
  const factors = power === 1 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]
  const factor = factors.find((candidate) => candidate * power >= wanted) ?? 10
  return factor * power
}

/** The top of the axis: the line at or above `value`, and at least `least`. */
export function top(value: number, least: number): number {
  const high = Math.max(value, least)
  return Math.ceil(high / step(high)) * step(high)
}

/** The lines from zero to `high`, a value that `top` gave. */
export function lines(high: number): number[] {
  const apart = step(high)
  return Array.from({ length: Math.round(high / apart) + 1 }, (_, i) => i * apart)
}
