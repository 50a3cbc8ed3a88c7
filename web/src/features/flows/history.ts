/** Queries of the flow charts and the lines of their results. */
import type { ApiResponse, Client } from '../../client'
import type { QueryResult, Series } from '../../stream/protocol'

/** The time ranges, with their step and poll interval. */
export const RANGES = {
  '60m': { name: '1 hour', step: 'minute', pollMs: 10_000 },
  '6h': { name: '6 hours', step: 'minute', pollMs: 10_000 },
  '24h': { name: '24 hours', step: 'minute', pollMs: 30_000 },
  '7d': { name: '7 days', step: 'hour', pollMs: 60_000 },
} as const
export type Range = keyof typeof RANGES

export function parseRange(text: string): Range {
  return text in RANGES ? (text as Range) : '60m'
}

const MINUTES = { minute: 1, hour: 60 }

/** Each value of these metrics belongs to one flow in one minute, so the count is the number of active flows. */
const QUALITY_METRICS = [
  ['running', '$flow.mos', 'count'],
  ['mos_p50', '$flow.mos', 'p50'],
  ['mos_p10', '$flow.mos', 'p10'],
  ['lost', '$flow.lost', 'sum'],
  ['expected', '$flow.expected', 'sum'],
  ['loss_p90', '$flow.loss', 'p90'],
  ['jitter_p50', '$flow.jitter_ms', 'p50'],
  ['jitter_p90', '$flow.jitter_ms', 'p90'],
  ['rtt_p50', '$flow.rtt_ms', 'p50'],
  ['rtt_p90', '$flow.rtt_ms', 'p90'],
] as const

/** Returns two queries, for quality and for ended flows: a query is limited to ten metrics. */
export function historyQueries(range: Range): { last: Range; step: string; metrics: string }[] {
  const { step } = RANGES[range]
  const toJson = (metrics: readonly (readonly [string, string, string])[]) =>
    JSON.stringify(metrics.map(([as, metric, measure]) => ({ as, metric, measure })))
  return [QUALITY_METRICS, [['ended', '$flow', 'count'] as const]].map((metrics) => ({
    last: range,
    step,
    metrics: toJson(metrics),
  }))
}

type Values = (number | null)[]

/** One line per metric; `null` where there is no data. */
export interface FlowHistory {
  range: Range
  /** Epoch seconds. */
  times: number[]
  /** Active flows; in hourly ranges the average of the minutes. */
  running: Values
  ended: Values
  /** Flows that ended in the whole range, including the current minute. */
  endedTotal: number
  /** Share of packets, 0 to 1. */
  loss: Values
  lossP90: Values
  mosP50: Values
  mosP10: Values
  jitterP50: Values
  jitterP90: Values
  rttP50: Values
  rttP90: Values
}

/** Returns the reader of a resource that runs both queries. */
export function readHistory(client: Client, range: Range) {
  return async (signal: AbortSignal): Promise<ApiResponse<FlowHistory>> => {
    const run = (query: ReturnType<typeof historyQueries>[number]) =>
      client.get<QueryResult>('/v1/query', query, signal)
    const responses = await Promise.all(historyQueries(range).map(run))
    return { body: historyOf(range, responses.map(({ body }) => body)), time: responses[0]?.time ?? '' }
  }
}

/** The values of a minute are reported this long after its end, at the latest. */
const REPORT_DELAY_S = 3

export function historyOf(range: Range, [quality, endedFlows]: QueryResult[]): FlowHistory {
  const times = (quality?.times ?? []).map((time) => Date.parse(time) / 1000)
  const minutes = MINUTES[RANGES[range].step]
  const completeUntilS = Date.parse(quality?.as_of.time ?? '') / 1000 - minutes * 60 - REPORT_DELAY_S
  const filled = (series: Series | undefined): Values => times.map((_, i) => series?.values[i] ?? null)
  const line = (name: string) => filled(quality?.series.find((series) => series.name === name))
  const [lost, expected, running] = [line('lost'), line('expected'), line('running')]
  // The series of a single metric has no name.
  const ended = filled(endedFlows?.series[0])
  const whileActive = (values: Values) => values.map((value, i) => (running[i] ? value : null))
  const endedTotal = sum(ended)
  const isEmpty = sum(running) + endedTotal === 0
  /** Counts of the complete minutes. */
  const counts = (values: Values, per: number) =>
    values.map((value, i) => (isEmpty || (times[i] ?? 0) > completeUntilS ? null : (value ?? 0) / per))
  return {
    range,
    times,
    running: counts(running, minutes),
    ended: counts(ended, 1),
    endedTotal,
    loss: lost.map((value, i) => (expected[i] ? (value ?? 0) / expected[i] : null)),
    lossP90: whileActive(line('loss_p90')),
    mosP50: whileActive(line('mos_p50')),
    mosP10: whileActive(line('mos_p10')),
    jitterP50: whileActive(line('jitter_p50')),
    jitterP90: whileActive(line('jitter_p90')),
    rttP50: whileActive(line('rtt_p50')),
    rttP90: whileActive(line('rtt_p90')),
  }
}

function sum(line: Values): number {
  return line.reduce<number>((sum, value) => sum + (value ?? 0), 0)
}
