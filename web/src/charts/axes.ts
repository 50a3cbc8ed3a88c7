/** The axes of all charts: hairlines and small muted labels. */
import type uPlot from 'uplot'
import { tick } from '../format'
import type { Colors } from './colors'
import { gridLines } from './scale'

/** The fonts of `--font`; a canvas does not support `var()`. */
const FONT = '11px -apple-system, "Segoe UI", Roboto, Inter, "Inter Fetched", system-ui, sans-serif'

export function timeAxis(colors: () => Colors, more: Partial<uPlot.Axis>): uPlot.Axis {
  return {
    font: FONT,
    size: 28,
    gap: 9,
    stroke: () => colors().muted,
    grid: { show: false },
    ticks: { show: false },
    border: { show: true, width: 1, stroke: () => colors()['line-strong'] },
    ...more,
  }
}

export function countAxis(colors: () => Colors): uPlot.Axis {
  return {
    font: FONT,
    size: 38,
    gap: 8,
    splits: (_, __, ___, high) => gridLines(high),
    stroke: () => colors().muted,
    grid: { width: 1, stroke: () => colors().line },
    ticks: { show: false },
    values: (_, splits) => splits.map(tick),
  }
}
