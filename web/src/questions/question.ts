/**
 * A question about metrics over time, and its URL. The URL is the only state: a page parses it, and controls navigate
 * to the URL of the next question. Defaults are omitted.
 *
 *     metric measure property where        the first series; `where` applies to all series
 *     b.metric b.measure b.property b.where  further series, to `d`; `a.where` applies to the first series only
 *     last | from to, tz, compare, step, by, top, formula, view, scale, hide
 */
import { formatFilter, parseFilter, type Filter } from './conditions'
import { builtInOf, MEASURES, type Measure } from './metrics'
import { COMPARE_NAMES, parseRange, STEPS, type Compare, type Range, type Step } from './range'

export interface Series {
  metric: string
  /** Empty: the metric's own. */
  measure: Measure | ''
  /** The number property that is measured. Empty: the event's value. */
  property: string
  /** Conditions on this series only. */
  where: Filter[]
}

/** Removes a series. A single series has no filters of its own, and no formula: its filters become those of the question. */
export function withoutSeries(question: Question, index: number): Question {
  const series = question.series.filter((_, i) => i !== index)
  const [only] = series
  if (series.length !== 1 || !only) return { ...question, series }
  return { ...question, series: [{ ...only, where: [] }], where: [...question.where, ...only.where], formula: '' }
}

export const VIEWS = ['line', 'bar', 'area', 'table', 'number'] as const
export type View = (typeof VIEWS)[number]

export interface Question {
  /** The first is `A`; at most `SERIES_MAX`. */
  series: Series[]
  /** Arithmetic over the letters of the series; empty for none. */
  formula: string
  where: Filter[]
  /** At most two properties. */
  by: string[]
  /** The number of values of a breakdown; all others are combined. */
  top: number
  step: Step | 'auto'
  range: Range
  compare: Compare
  /** IANA time zone. */
  tz: string
  view: View
  scale: 'linear' | 'log'
  /** Ids of hidden series. */
  hide: string[]
}

export const SERIES_MAX = 4
export const BY_MAX = 2
export const TOP_DEFAULT = 7
const TOP_MAX = 100
export const DEFAULT_RANGE: Range = { last: '7d' }
export const LETTERS = ['A', 'B', 'C', 'D'] as const

/** A parameter of the URL that cannot be used; its default is used instead. */
export interface ParameterError {
  parameter: string
  message: string
}

export interface ParsedQuestion {
  question: Question
  errors: ParameterError[]
}

export const newSeries = (metric: string): Series => ({ metric, measure: '', property: '', where: [] })

/** Reads the question of a URL. Unusable parameters are listed in `errors`. */
export function parseQuestion(params: URLSearchParams, gameTz: string): ParsedQuestion {
  const errors: ParameterError[] = []
  const reject = (parameter: string, message: string) => void errors.push({ parameter, message })

  function choice<T extends string>(name: string, choices: readonly T[], otherwise: T): T {
    const text = params.get(name)
    if (!text) return otherwise
    const found = choices.find((choice) => choice === text)
    if (found === undefined) reject(name, `must be one of ${choices.filter(Boolean).join(', ')}`)
    return found ?? otherwise
  }

  function filters(name: string): Filter[] {
    return params.getAll(name).flatMap((text) => {
      const filter = parseFilter(text)
      if (!filter) reject(name, `"${text}" is not a condition such as country,in,FR,DE`)
      return filter ? [filter] : []
    })
  }

  function series(prefix: string, metric: string, where: Filter[]): Series {
    const measure = choice(`${prefix}measure`, MEASURES, '' as Measure)
    return { metric, measure, property: params.get(`${prefix}property`) ?? '', where }
  }

  function top(): number {
    const text = params.get('top')
    if (!text) return TOP_DEFAULT
    const number = Number(text)
    if (Number.isInteger(number) && number >= 1 && number <= TOP_MAX) return number
    reject('top', `must be a number from 1 to ${TOP_MAX}`)
    return TOP_DEFAULT
  }

  function range(): Range {
    const [last, from, to] = ['last', 'from', 'to'].map((name) => params.get(name)) as [string | null, string | null, string | null]
    if (!last && !from && !to) return DEFAULT_RANGE
    const found = parseRange(last, from, to)
    if (!found) reject(last ? 'last' : 'from', 'must be a duration such as 7d, or two local times such as from=2026-11-01&to=2026-11-07')
    return found ?? DEFAULT_RANGE
  }

  function zone(): string {
    const tz = params.get('tz')
    if (!tz) return gameTz
    try {
      new Intl.DateTimeFormat('en', { timeZone: tz })
      return tz
    } catch {
      reject('tz', `"${tz}" is not a time zone such as Europe/Paris`)
      return gameTz
    }
  }

  const all = [series('', params.get('metric') || 'players', filters('a.where'))]
  for (const letter of LETTERS.slice(1)) {
    const prefix = `${letter.toLowerCase()}.`
    const metric = params.get(`${prefix}metric`)
    if (metric) all.push(series(prefix, metric, filters(`${prefix}where`)))
  }
  const by = [...new Set(params.getAll('by').filter(Boolean))]
  if (by.length > BY_MAX) reject('by', `must be at most ${BY_MAX} properties`)
  const question: Question = {
    series: all,
    formula: params.get('formula') ?? '',
    where: filters('where'),
    by: by.slice(0, BY_MAX),
    top: top(),
    step: choice('step', ['auto', ...STEPS, 'all'], 'auto'),
    range: range(),
    compare: choice('compare', Object.keys(COMPARE_NAMES) as Compare[], ''),
    tz: zone(),
    view: choice('view', VIEWS, 'line'),
    scale: choice('scale', ['linear', 'log'], 'linear'),
    hide: params.getAll('hide'),
  }
  return { question, errors }
}

/** Returns the parameters of a question, without defaults. `parseQuestion` of them is the same question. */
export function formatQuestion(question: Question, gameTz: string): URLSearchParams {
  const params = new URLSearchParams()
  const set = (name: string, value: string | number, otherwise: string | number = '') => {
    if (value !== otherwise) params.set(name, String(value))
  }
  const append = (name: string, values: readonly string[]) => values.forEach((value) => params.append(name, value))

  question.series.forEach(({ metric, measure, property, where }, i) => {
    const letter = (LETTERS[i] ?? '').toLowerCase()
    const prefix = i === 0 ? '' : `${letter}.`
    set(`${prefix}metric`, metric, i === 0 ? 'players' : '')
    set(`${prefix}measure`, measure)
    set(`${prefix}property`, property)
    append(`${letter}.where`, where.map(formatFilter))
  })
  append('where', question.where.map(formatFilter))
  append('by', question.by)
  set('top', question.top, TOP_DEFAULT)
  set('formula', question.formula)
  set('step', question.step, 'auto')
  for (const [name, value] of Object.entries(rangeParams(question.range))) set(name, value)
  set('compare', question.compare)
  set('tz', question.tz, gameTz)
  set('view', question.view, 'line')
  set('scale', question.scale, 'linear')
  append('hide', question.hide)
  return params
}

/** Returns the parameters of a range; none for the default. */
export function rangeParams(range: Range): Record<string, string> {
  if ('from' in range) return { from: range.from, to: range.to }
  return 'last' in DEFAULT_RANGE && range.last === DEFAULT_RANGE.last ? {} : { last: range.last }
}

/** The measure of a series; that of the metric if none is set. */
export function measureOf({ metric, measure }: Series): Measure {
  return measure || builtInOf(metric)?.measure || 'count'
}
