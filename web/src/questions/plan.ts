/**
 * How a question is answered: from rollups (`/v1/query`) if they have what it needs, else from raw events
 * (`/v1/explore`), one request per measured metric.
 */
import type { AsOf } from '../stream/protocol'
import { OTHER } from '../stream/query-results'
import { keyName, stepSeconds, type Answer, type AnswerSeries, type WindowValues } from './answer'
import { toConditions, toDimensionFilter, type Filter } from './conditions'
import { parseFormula, type Formula } from './formula'
import { builtInOf, isAdditive, metricName, needsProperty, pairOf, rateOf, type Good, type Measure, type Unit } from './metrics'
import { LETTERS, measureOf, type Question, type Series } from './question'
import { autoStep, endsNow, timeFields, type Step, type TimeFields } from './range'

/** What a plan needs to know about the game. */
export interface GameSchema {
  /** Dimensions of the rollups. */
  dimensions: ReadonlySet<string>
  /** Those that cannot be combined with another dimension. */
  declared: ReadonlySet<string>
  /** Event names and their numbers in the last 30 days. */
  events: ReadonlyMap<string, number>
}

export interface PlannedRequest {
  path: '/v1/query' | '/v1/explore'
  body: Record<string, unknown>
  /** The measured metrics, by their name in the response; one without a name is the only one. */
  leaves: string[]
}

interface Output {
  letter: string
  label: string
  unit: Unit
  good?: Good
  isAdditive: boolean
  /** A bucket without events counts 0. */
  hasZero: boolean
  compute: Formula
  /** The leaf of which a rate is a share. */
  whole?: string
}

export interface Plan {
  requests: PlannedRequest[]
  outputs: Output[]
  /** How the metrics are measured, by their name in the response. */
  measures: ReadonlyMap<string, Measure>
  step: Step
  by: string[]
  top: number
  /** The answer can be kept current by a stream. */
  isLive: boolean
  endsNow: boolean
}

/** The question cannot be asked; `field` is the name of the control. */
export class PlanError extends Error {
  readonly field: string

  constructor(field: string, message: string) {
    super(message)
    this.field = field
  }
}

/** A metric that is measured by one request. */
interface Leaf {
  id: string
  metric: string
  measure: Measure
  property: string
  where: Filter[]
}

/** Raw events that are joined to another answer: all values of a breakdown, as far as the server allows. */
const JOINED_TOP = 1_000

/** Plans a question. Throws a `PlanError` if it cannot be asked. */
export function planQuestion(question: Question, schema: GameSchema, nowMs: number): Plan {
  const step = question.step === 'auto' ? autoStep(question.range, question.tz, nowMs) : question.step
  const { leaves, outputs } = expand(question, schema.events)
  const time = timeFields(question.range, step, question.tz, nowMs)
  const common = {
    ...(question.by.length > 0 ? { by: question.by, top: question.top } : {}),
    step,
    ...time,
    tz: question.tz,
    ...(question.compare ? { compare: question.compare } : {}),
  }
  const rollup = rollupRequest(question, leaves, schema, common)
  const requests = rollup ? [rollup] : leaves.map((leaf, i) => rawRequest(question, leaf, common, i > 0))
  const isLive = rollup !== undefined && 'last' in (time as Partial<TimeFields>)
  const measures = new Map(leaves.map(({ id, measure }) => [id, measure]))
  return { requests, outputs, measures, step, by: question.by, top: question.top, isLive, endsNow: endsNow(question.range) }
}

function expand(question: Question, events: ReadonlyMap<string, number>): { leaves: Leaf[]; outputs: Output[] } {
  const leaves: Leaf[] = []
  const outputs: Output[] = []
  const byLetter = new Map<string, Formula>()
  question.series.forEach((series, i) => {
    const letter = LETTERS[i] ?? ''
    const output = expandSeries(series, letter, events, leaves)
    byLetter.set(letter, output.compute)
    outputs.push(output)
  })
  if (question.formula.trim() === '') return { leaves, outputs }
  return { leaves, outputs: [formulaOutput(question.formula, byLetter, outputs)] }
}

function expandSeries(series: Series, letter: string, events: ReadonlyMap<string, number>, leaves: Leaf[]): Output {
  const rate = rateOf(series.metric)
  const label = seriesName(series)
  if (!rate) {
    const measure = measureOf(series)
    leaves.push({ id: letter, metric: series.metric, measure, property: series.property, where: series.where })
    const builtIn = builtInOf(series.metric)
    const good = builtIn?.good ? { good: builtIn.good } : {}
    const unit = builtIn?.unit ?? 'number'
    return { letter, label, unit, ...good, isAdditive: isAdditive(measure), hasZero: !needsProperty(measure) || measure === 'sum', compute: (value) => value(letter) }
  }
  const { part, whole } = pairOf(rate, events)
  const [partId, wholeId] = [`${letter}_part`, `${letter}_whole`]
  // The whole comes first: the values of a breakdown are ranked by it, so the largest groups are shown.
  for (const [id, { event, where }] of [[wholeId, whole], [partId, part]] as const) {
    const own: Filter[] = where ? [[{ property: where.property, op: '=', values: [where.value] }]] : []
    const measure = builtInOf(event)?.measure ?? 'count'
    leaves.push({ id, metric: event, measure, property: '', where: [...series.where, ...own] })
  }
  const compute = parseFormula(`${partId} / ${wholeId}`, [partId, wholeId])
  const good = rate.good ? { good: rate.good } : {}
  return { letter, label, unit: rate.unit, ...good, isAdditive: false, hasZero: true, compute, whole: wholeId }
}

function formulaOutput(text: string, byLetter: ReadonlyMap<string, Formula>, outputs: readonly Output[]): Output {
  try {
    const formula = parseFormula(text, [...byLetter.keys()])
    const compute: Formula = (value) => formula((letter) => byLetter.get(letter)?.(value) ?? null)
    const isShare = /^\s*[A-D]\s*\/\s*[A-D]\s*$/.test(text) && outputs.every(({ unit, isAdditive }) => unit === 'number' && isAdditive)
    return { letter: 'formula', label: text.trim(), unit: isShare ? 'percent' : 'number', isAdditive: false, hasZero: outputs.every(({ hasZero }) => hasZero), compute }
  } catch (error) {
    throw new PlanError('formula', (error as Error).message)
  }
}

/** The name of a series in a chart: `Active players`, `purchase, Sum of price`. */
export function seriesName(series: Series): string {
  const measure = measureOf(series)
  const name = metricName(series.metric)
  if (rateOf(series.metric) || !series.measure || series.measure === builtInOf(series.metric)?.measure) return name
  if (measure === 'uniques') return `${name}, players`
  return needsProperty(measure) ? `${name}, ${measure} of ${series.property.replace(/^props\./, '') || 'value'}` : name
}

type Common = Record<string, unknown>

/** Returns the request that answers everything from rollups; `undefined` if they do not have what it needs. */
function rollupRequest(question: Question, leaves: Leaf[], schema: GameSchema, common: Common): PlannedRequest | undefined {
  const known = new Set([...schema.dimensions, 'event'])
  const where = toDimensionFilter(question.where, known)
  if (!where || leaves.some((leaf) => leaf.where.length > 0 || leaf.property !== '')) return undefined
  const used = new Set([...question.by, ...Object.keys(where)])
  if ([...used].some((dimension) => !known.has(dimension))) return undefined
  if (used.delete('event') && leaves.some(({ metric }) => metric !== 'events' && metric !== 'players')) return undefined
  if (used.size > 1) {
    const hasDeclared = [...used].some((dimension) => schema.declared.has(dimension))
    const countsPlayers = leaves.some(({ measure }) => measure === 'uniques')
    if (hasDeclared || countsPlayers) return undefined
  }
  const filter = Object.keys(where).length > 0 ? { where } : {}
  const [only] = leaves
  if (leaves.length === 1 && only) {
    return { path: '/v1/query', body: { ...measured(only), ...filter, ...common }, leaves: [only.id] }
  }
  const metrics = leaves.map((leaf) => ({ as: leaf.id, ...measured(leaf) }))
  const formula = question.formula.trim()
  // With a formula, `/v1/query` returns only its result, so this one is for display: see `shownBody`.
  const isPlain = formula !== '' && leaves.every(({ id }) => id.length === 1)
  return { path: '/v1/query', body: { metrics, ...filter, ...common, ...(isPlain ? { formula } : {}) }, leaves: leaves.map(({ id }) => id) }
}

function measured({ metric, measure }: Leaf): Record<string, string> {
  return measure === (builtInOf(metric)?.measure ?? 'count') ? { metric } : { metric, measure }
}

function rawRequest(question: Question, leaf: Leaf, common: Common, isJoined: boolean): PlannedRequest {
  const builtIn = builtInOf(leaf.metric)
  if (builtIn && leaf.metric !== 'events' && leaf.metric !== 'players') {
    const message = `${builtIn.name} can be filtered and broken down only by one dimension, not by other properties. Choose an event instead.`
    throw new PlanError('metric', message)
  }
  const where = toConditions([...question.where, ...leaf.where])
  const body = {
    ...(builtIn ? {} : { event: leaf.metric }),
    ...(leaf.measure === 'count' ? {} : { measure: leaf.measure }),
    ...(needsProperty(leaf.measure) && leaf.property ? { property: leaf.property } : {}),
    ...(where.length > 0 ? { where } : {}),
    ...common,
    ...(isJoined && question.by.length > 0 ? { top: JOINED_TOP } : {}),
  }
  return { path: '/v1/explore', body, leaves: [leaf.id] }
}

/** The body that is sent: formulas are computed here, so that the parts of a rate stay known. */
export function sentBody({ body }: PlannedRequest): Record<string, unknown> {
  const { formula: _, ...rest } = body
  return rest
}

/** The response of `/v1/query` and `/v1/explore`. */
export interface ApiAnswer {
  as_of: AsOf
  step: string
  tz: string
  times: string[]
  series: ApiSeries[]
  compare?: { times: string[]; series: ApiSeries[] }
}

export interface ApiSeries {
  name?: string
  key: Record<string, string>
  values: (number | null)[]
  total: number | null
}

/** Combines the responses, in the order of the plan's requests, into one answer. */
export function combine(plan: Plan, responses: readonly ApiAnswer[]): Answer {
  const [first] = responses
  if (!first) throw new Error('a plan has at least one request')
  const now = new Leaves(plan, responses.map(({ series }) => series), first.times.length)
  const before = first.compare && new Leaves(plan, responses.map(({ compare }) => compare?.series ?? []), first.compare.times.length, now.keys())
  const times = first.times.map(seconds)
  const all = now.keys().flatMap((key) => plan.outputs.map((output) => seriesOf(output, key, plan, now, before)))
  const series = all.filter(({ isOther, total, values }) => !isOther || total !== null || values.some((value) => value !== null))
  const partialFrom = partialIndex(plan, times, Date.parse(first.as_of.time) / 1000)
  return {
    asOf: first.as_of,
    step: plan.step,
    tz: first.tz,
    times,
    ...(first.compare ? { beforeTimes: first.compare.times.map(seconds) } : {}),
    series,
    ...(partialFrom === undefined ? {} : { partialFrom }),
  }
}

const seconds = (time: string) => Date.parse(time) / 1000

function partialIndex(plan: Plan, times: readonly number[], asOf: number): number | undefined {
  const last = times.length - 1
  const start = times[last]
  if (start === undefined || plan.step === 'all') return undefined
  // A day can have 25 hours: the last bucket of a range that ends now is never complete.
  const isPartial = plan.endsNow || start + stepSeconds(plan.step) > asOf
  return isPartial ? last : undefined
}

function seriesOf(output: Output, key: Record<string, string>, plan: Plan, now: Leaves, before: Leaves | undefined): AnswerSeries {
  const { letter, unit, good, isAdditive } = output
  const names = Object.values(key)
  const isBroken = names.length > 0
  const label = !isBroken ? output.label : plan.outputs.length > 1 ? `${output.label}: ${keyName(key)}` : keyName(key)
  return {
    id: [plan.outputs.length > 1 || !isBroken ? letter : '', ...names].filter(Boolean).join('~') || '~',
    label,
    letter,
    key,
    isOther: names.includes(OTHER),
    unit,
    ...(good ? { good } : {}),
    isAdditive,
    ...now.compute(output, key),
    ...(before ? { before: before.compute(output, key) } : {}),
  }
}

/** The measured metrics of one window, by key. */
class Leaves {
  readonly #byLeaf = new Map<string, Map<string, ApiSeries>>()
  /** The metrics of which a missing row has no events, and counts 0. */
  readonly #zeros = new Set<string>()
  readonly #buckets: number
  readonly #keys: Record<string, string>[]

  /** Without `keys`, the rows are those of the responses. */
  constructor(plan: Plan, responses: readonly (readonly ApiSeries[])[], buckets: number, keys?: Record<string, string>[]) {
    this.#buckets = buckets
    plan.requests.forEach((request, i) => {
      for (const leaf of request.leaves) {
        const own = (responses[i] ?? []).filter(({ name }) => name === undefined || name === leaf)
        this.#byLeaf.set(leaf, new Map(own.map((series) => [keyText(series.key), series])))
      }
    })
    const isJoined = plan.requests.length > 1
    const all = [...this.#byLeaf.values()]
    this.#keys = keys ?? (isJoined ? joinedKeys(all, plan.top) : keysOf(all))
    this.#keys.sort((a, b) => Number(isOther(a)) - Number(isOther(b)))
    ;[...this.#byLeaf].forEach(([leaf, rows], i) => {
      const measure = plan.measures.get(leaf)
      const hasRest = isJoined && i > 0 && [...rows.values()].some(({ key }) => isOther(key))
      // Beyond the rows of a joined answer, a value is unknown.
      if ((measure === 'count' || measure === 'uniques' || measure === 'sum') && !hasRest) this.#zeros.add(leaf)
      if (isJoined && i > 0) joinRest(this.#keys, rows, measure !== undefined && isAdditive(measure), buckets)
    })
  }

  keys(): Record<string, string>[] {
    return this.#keys
  }

  compute({ compute, whole }: Output, key: Record<string, string>): WindowValues {
    const text = keyText(key)
    const at = (leaf: string, read: (series: ApiSeries) => number | null | undefined) => {
      const series = this.#byLeaf.get(leaf)?.get(text)
      return series ? (read(series) ?? null) : this.#zeros.has(leaf) ? 0 : null
    }
    const values = Array.from({ length: this.#buckets }, (_, i) => compute((leaf) => at(leaf, ({ values }) => values[i])))
    const total = compute((leaf) => at(leaf, ({ total }) => total))
    return whole === undefined ? { values, total } : { values, total, n: at(whole, ({ total }) => total) }
  }
}

type Rows = ReadonlyMap<string, ApiSeries>

function keysOf(leaves: readonly Rows[]): Record<string, string>[] {
  const all = leaves.flatMap((rows) => [...rows])
  return [...new Map(all.map(([text, { key }]) => [text, key])).values()]
}

/** Returns the rows of joined answers: those of the first, and others up to `top` if the first has all its values. */
function joinedKeys(leaves: readonly Rows[], top: number): Record<string, string>[] {
  const own = keysOf(leaves.slice(0, 1))
  if (own.some(isOther)) return own
  const known = new Set(own.map(keyText))
  const more = keysOf(leaves.slice(1)).filter((key) => !isOther(key) && !known.has(keyText(key)))
  const shown = [...own, ...more].slice(0, Math.max(top, own.length))
  const [example] = shown
  const hasRest = shown.length < own.length + more.length || keysOf(leaves.slice(1)).some(isOther)
  if (!hasRest || !example) return shown
  return [...shown, Object.fromEntries(Object.keys(example).map((name) => [name, OTHER]))]
}

/** Combines the rows of a joined answer that are not shown into `(other)`. Only counts and sums add up: others are unknown. */
function joinRest(keys: readonly Record<string, string>[], joined: Map<string, ApiSeries>, canAdd: boolean, buckets: number): void {
  const other = keys.find(isOther)
  if (!other) return
  const known = new Set(keys.map(keyText))
  const rest = [...joined].filter(([text, { key }]) => !known.has(text) || isOther(key))
  if (rest.length === 0) return
  const add = (left: number | null, right: number | null) => (left === null ? right : right === null ? left : left + right)
  const unknown = { key: other, values: Array.from({ length: buckets }, () => null), total: null }
  const sum = rest.map(([, series]) => series).reduce((left, right) => ({
    key: other,
    values: left.values.map((value, i) => add(value, right.values[i] ?? null)),
    total: add(left.total, right.total),
  }))
  rest.forEach(([text]) => joined.delete(text))
  joined.set(keyText(other), canAdd ? { ...sum, key: other } : unknown)
}

const isOther = (key: Record<string, string>) => Object.values(key).includes(OTHER)
const keyText = (key: Record<string, string>) => JSON.stringify(Object.entries(key).sort())
