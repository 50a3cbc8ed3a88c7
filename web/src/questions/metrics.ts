/** What a question can measure: built-in metrics, rates of two event counts, and events. */
import { LOCALE } from '../locale'
import { bytes } from '../units'

export const MEASURES = ['count', 'uniques', 'sum', 'avg', 'min', 'max', 'p10', 'p50', 'p90', 'p99'] as const
export type Measure = (typeof MEASURES)[number]

export const MEASURE_NAMES: Record<Measure, string> = {
  count: 'Count',
  uniques: 'Players',
  sum: 'Sum',
  avg: 'Mean',
  min: 'Minimum',
  max: 'Maximum',
  p10: '10th percentile',
  p50: 'Median',
  p90: '90th percentile',
  p99: '99th percentile',
}

/** True if the values of a breakdown add up to the whole. */
export const isAdditive = (measure: Measure) => measure === 'count' || measure === 'sum'
/** True if the measure needs a number property. */
export const needsProperty = (measure: Measure) => measure !== 'count' && measure !== 'uniques'

export type Unit = 'number' | 'percent' | 'seconds' | 'bytes'

/** The direction in which a change is good; absent if it depends. */
export type Good = 'up' | 'down'

export interface BuiltIn {
  id: string
  name: string
  text: string
  unit: Unit
  measure: Measure
  good?: Good
}

/** The metrics that `/v1/query` defines. */
export const BUILT_IN: readonly BuiltIn[] = [
  { id: 'players', name: 'Active players', text: 'Distinct players with at least one event', unit: 'number', measure: 'uniques', good: 'up' },
  { id: 'sessions', name: 'Sessions', text: 'Sessions that began', unit: 'number', measure: 'count', good: 'up' },
  { id: 'play_time_s', name: 'Play time', text: 'Time in sessions', unit: 'seconds', measure: 'sum', good: 'up' },
  { id: 'plays', name: 'Plays', text: 'Rounds that were started', unit: 'number', measure: 'count', good: 'up' },
  { id: 'views', name: 'Views', text: 'Pages and screens that were opened', unit: 'number', measure: 'count' },
  { id: 'online', name: 'Players online', text: 'Players with an event in the last three minutes', unit: 'number', measure: 'uniques', good: 'up' },
  { id: 'events', name: 'All events', text: 'Events of any name', unit: 'number', measure: 'count' },
]

/** Counted events, as one side of a rate. */
interface Counted {
  event: string
  /** A property's value that the events must have. */
  where?: { property: string; value: string }
}

/** The count of some events divided by the count of others. */
export interface RateMetric {
  id: string
  name: string
  text: string
  unit: Unit
  good?: Good
  /** The possible pairs of events; the one that the game sends most is used. */
  pairs: readonly { part: Counted; whole: Counted }[]
}

export const RATES: readonly RateMetric[] = [
  {
    id: 'level_win_rate',
    name: 'Level win rate',
    text: 'Levels won, of those started',
    unit: 'percent',
    pairs: [
      { part: { event: 'level_win' }, whole: { event: 'level_start' } },
      {
        part: { event: '$level', where: { property: 'props.state', value: 'win' } },
        whole: { event: '$level', where: { property: 'props.state', value: 'start' } },
      },
      { part: { event: 'level_complete' }, whole: { event: 'level_start' } },
      { part: { event: 'win' }, whole: { event: 'start' } },
    ],
  },
  {
    id: 'session_length',
    name: 'Session length',
    text: 'Play time per session',
    unit: 'seconds',
    good: 'up',
    pairs: [{ part: { event: 'play_time_s' }, whole: { event: 'sessions' } }],
  },
]

/** Returns the pair of events that a rate counts in a game with these events and their numbers. */
export function pairOf(rate: RateMetric, events: ReadonlyMap<string, number>): RateMetric['pairs'][number] {
  const volume = ({ event }: Counted) => events.get(event) ?? 0
  const [first, ...others] = rate.pairs
  if (!first) throw new Error(`the rate ${rate.id} has no events`)
  const smaller = ({ part, whole }: RateMetric['pairs'][number]) => Math.min(volume(part), volume(whole))
  return others.reduce((best, pair) => (smaller(pair) > smaller(best) ? pair : best), first)
}

export function builtInOf(metric: string): BuiltIn | undefined {
  return BUILT_IN.find(({ id }) => id === metric)
}

export function rateOf(metric: string): RateMetric | undefined {
  return RATES.find(({ id }) => id === metric)
}

/** The name of a metric as it is shown; an event is shown by its own name. */
export function metricName(metric: string): string {
  return builtInOf(metric)?.name ?? rateOf(metric)?.name ?? metric
}

const numberFormat = (options: Intl.NumberFormatOptions) => new Intl.NumberFormat([...LOCALE], options)
const number = numberFormat({ maximumFractionDigits: 2 })
const whole = numberFormat({ maximumFractionDigits: 0 })
const short = numberFormat({ notation: 'compact', maximumSignificantDigits: 3 })
const tenths = numberFormat({ minimumFractionDigits: 1, maximumFractionDigits: 1 })
const percent = numberFormat({ style: 'percent', minimumFractionDigits: 1, maximumFractionDigits: 1 })
const percentTick = numberFormat({ style: 'percent', maximumFractionDigits: 1 })

/** Formats a value of a metric: `1,234`, `61.2%`, `4 min 30 s`. */
export function formatValue(value: number | null | undefined, unit: Unit): string {
  if (value == null) return '–'
  if (unit === 'percent') return percent.format(value)
  if (unit === 'seconds') return duration(value)
  if (unit === 'bytes') return bytes(value)
  return (Math.abs(value) >= 1_000 ? whole : number).format(value)
}

/** Formats a value for an axis: `1.5K`, `60%`, `5m`. */
export function formatTick(value: number, unit: Unit): string {
  if (unit === 'percent') return percentTick.format(value)
  if (unit === 'seconds') return duration(value).replace(/ .*$/, '')
  if (unit === 'bytes') return bytes(value)
  return Math.abs(value) < 1_000 ? number.format(value) : short.format(value)
}

/** 270 → `4m 30s`. */
export function duration(seconds: number): string {
  if (Math.abs(seconds) < 60) return `${number.format(Math.round(seconds * 10) / 10)}s`
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'm'],
    [Math.floor(seconds % 60), 's'],
  ] as const
  const first = parts.findIndex(([count]) => count > 0)
  const [main, rest] = parts.slice(first, first + 2)
  if (!main) return '0s'
  return `${whole.format(main[0])}${main[1]}${rest && rest[0] > 0 ? ` ${rest[0]}${rest[1]}` : ''}`
}

/** The change of a value against another, as text: `+12.5%`, or `+2.1 pp` for percentages. */
export interface Delta {
  text: string
  direction: 'up' | 'down' | 'same'
}

export function deltaOf(now: number | null | undefined, before: number | null | undefined, unit: Unit): Delta | undefined {
  if (now == null || before == null) return undefined
  const isPercent = unit === 'percent'
  if (!isPercent && before === 0) return undefined
  const change = isPercent ? (now - before) * 100 : ((now - before) / Math.abs(before)) * 100
  const rounded = Math.round(change * 10) / 10
  const direction = rounded > 0 ? 'up' : rounded < 0 ? 'down' : 'same'
  const sign = rounded > 0 ? '+' : rounded < 0 ? '−' : '±'
  return { text: `${sign}${tenths.format(Math.abs(rounded))}${isPercent ? ' pp' : '%'}`, direction }
}

/** Returns the Wilson interval of a rate, with 95 % confidence. */
export function wilson(rate: number, n: number): [low: number, high: number] {
  const z2 = 1.96 ** 2
  const middle = (rate + z2 / (2 * n)) / (1 + z2 / n)
  const half = (1.96 / (1 + z2 / n)) * Math.sqrt((rate * (1 - rate)) / n + z2 / (4 * n * n))
  return [Math.max(0, middle - half), Math.min(1, middle + half)]
}
