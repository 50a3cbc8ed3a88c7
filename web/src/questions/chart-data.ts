/** What a chart draws: the columns of uPlot and the range of its axis. */
import type { Answer, AnswerSeries } from './answer'

export type Values = (number | null)[]

/** The columns of one series: complete buckets, the incomplete end, and the window that it is compared with. */
export interface Strokes {
  main: Values
  /** From the last complete bucket to the end; all `null` if the answer is complete. */
  partial: Values
  before: Values | undefined
}

/** Splits the values of a series where its buckets become incomplete. A logarithmic axis shows positive values only. */
export function strokesOf(series: AnswerSeries, { partialFrom }: Answer, isLog: boolean, asBars: boolean): Strokes {
  const shown = (value: number | null) => (isLog && value !== null && value <= 0 ? null : value)
  const values = series.values.map(shown)
  const end = partialFrom ?? values.length
  return {
    main: values.map((value, i) => (i < end ? value : null)),
    // A line needs the point before as its start.
    partial: values.map((value, i) => (i >= end - (asBars ? 0 : 1) && partialFrom !== undefined ? value : null)),
    before: series.before && values.map((_, i) => shown(series.before?.values[i] ?? null)),
  }
}

/** Adds up series from the last to the first: the first is on top. A missing value counts 0. */
export function stacked(series: readonly AnswerSeries[]): AnswerSeries[] {
  let below: number[] = []
  return [...series]
    .reverse()
    .map((one) => {
      below = one.values.map((value, i) => (value ?? 0) + (below[i] ?? 0))
      return { ...one, values: below }
    })
    .reverse()
}

export interface AxisRange {
  low: number
  high: number
  step: number
}

const GRID_LINES = 4

/** Returns an axis that includes zero and the values, with round grid lines. */
export function axisRange(low: number, high: number, max?: number): AxisRange {
  const top = Math.max(high, 0) || (low < 0 ? 0 : 1)
  const bottom = Math.min(low, 0)
  const step = roundUp((top - bottom) / GRID_LINES)
  const end = Math.ceil(top / step - 1e-9) * step
  // A share ends at 100 %.
  return { low: Math.floor(bottom / step + 1e-9) * step, high: max !== undefined && top <= max ? Math.min(end, max) : end, step }
}

function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value))
  const factor = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= value * (1 - 1e-9)) ?? 10
  return factor * power
}

export function gridLines({ low, high, step }: AxisRange): number[] {
  const count = Math.round((high - low) / step)
  return Array.from({ length: count + 1 }, (_, i) => low + i * step)
}

/** Returns the smallest and the greatest of some columns. */
export function extent(columns: readonly Values[]): [low: number, high: number] {
  let [low, high] = [Infinity, -Infinity]
  for (const column of columns) {
    for (const value of column) {
      if (value === null) continue
      if (value < low) low = value
      if (value > high) high = value
    }
  }
  return low === Infinity ? [0, 0] : [low, high]
}

/** Returns every n-th time, so that labels have room. */
export function spread(times: readonly number[], labelsMax: number): number[] {
  const stride = Math.max(1, Math.ceil(times.length / Math.max(1, labelsMax)))
  return times.filter((_, i) => i % stride === 0)
}
