/** The answer to a question: lines of a chart, and rows of its table. */
import { countryName } from '../format'
import type { AsOf } from '../stream/protocol'
import { OTHER } from '../stream/query-results'
import { propertyName } from './conditions'
import type { Good, Unit } from './metrics'
import type { Step } from './range'

/** Values in the buckets of a window. */
export interface WindowValues {
  values: (number | null)[]
  total: number | null
  /** What a rate is a share of. */
  n?: number | null
}

export interface AnswerSeries extends WindowValues {
  /** Names the series in URLs, and its colour: the same in every answer. */
  id: string
  label: string
  /** The letter of the series, or the formula. */
  letter: string
  /** The values of the breakdown. */
  key: Record<string, string>
  /** Combines everything beyond the top values. */
  isOther: boolean
  unit: Unit
  good?: Good
  /** Values of a breakdown add up to the whole. */
  isAdditive: boolean
  /** The same series in the window that the question compares with. */
  before?: WindowValues
}

export interface Answer {
  asOf: AsOf
  step: Step
  tz: string
  /** Starts of the buckets, in epoch seconds. */
  times: number[]
  beforeTimes?: number[]
  series: AnswerSeries[]
  /** The index from which buckets are incomplete; absent if all are complete. */
  partialFrom?: number
}

/** A mark on the time axis, such as a change of a variable. */
export interface Annotation {
  /** Epoch seconds. */
  at: number
  text: string
  href?: string
}

/** Returns the name of a breakdown's value: `FR` is France, an empty value is not set. */
export function valueName(property: string, value: string): string {
  if (value === OTHER) return 'Other'
  if (value === '') return 'Not set'
  return property === 'country' && value !== 'ZZ' && value !== 'XX' ? countryName(value) : value
}

/** `France · web`. */
export function keyName(key: Record<string, string>): string {
  const parts = Object.entries(key).map(([property, value]) => valueName(property, value))
  return parts.every((part) => part === 'Other') ? 'Other' : parts.join(' · ')
}

/** The number of buckets of a step in seconds; months are counted as 31 days. */
export function stepSeconds(step: Step): number {
  return { minute: 60, hour: 3_600, day: 86_400, week: 604_800, month: 31 * 86_400, all: Infinity }[step]
}

/** The columns of a table of an answer: the values of the breakdown, or the name of the series. */
export function keyColumns(answer: Answer): string[] {
  const [first] = answer.series
  const names = Object.keys(first?.key ?? {})
  return names.length > 0 ? names.map(propertyName) : ['Series']
}
