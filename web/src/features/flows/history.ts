/** What the charts of flows ask for, and the lines of the answers. */
import type { Answer, Client } from '../../client'
import type { QueryAnswer, Series } from '../../stream/protocol'

/** How far back, and how often that is read again. */
export const RANGES = {
  '60m': { name: '1 hour', step: 'minute', everyMs: 10_000 },
  '6h': { name: '6 hours', step: 'minute', everyMs: 10_000 },
  '24h': { name: '24 hours', step: 'minute', everyMs: 30_000 },
  '7d': { name: '7 days', step: 'hour', everyMs: 60_000 },
} as const
export type Range = keyof typeof RANGES

export function rangeOf(asked: string): Range {
  return asked in RANGES ? (asked as Range) : '60m'
}

const MINUTES = { minute: 1, hour: 60 }

/** Each value of these metrics is that of one flow in one minute; so the count is how many ran. */
const FIGURES = [
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

/** The two questions: how well, and how many ended. A query has no room for more than ten metrics. */
export function questions(range: Range): { last: Range; step: string; metrics: string }[] {
  const { step } = RANGES[range]
  const asked = (figures: readonly (readonly [string, string, string])[]) =>
    JSON.stringify(figures.map(([as, metric, measure]) => ({ as, metric, measure })))
  return [FIGURES, [['ended', '$flow', 'count'] as const]].map((figures) => ({
    last: range,
    step,
    metrics: asked(figures),
  }))
}

type Line = (number | null)[]

/** A line for each figure; `null` where nothing is known. */
export interface History {
  range: Range
  /** Epoch seconds. */
  times: number[]
  /** Of a range by the hour: the mean of its minutes. */
  running: Line
  ended: Line
  /** Of the whole range, the minute that goes on included. */
  endedTotal: number
  /** A share, 0 to 1. */
  loss: Line
  lossP90: Line
  mosP50: Line
  mosP10: Line
  jitterP50: Line
  jitterP90: Line
  rttP50: Line
  rttP90: Line
}

/** Asks for both, to be kept current. */
export function readHistory(client: Client, range: Range) {
  return async (signal: AbortSignal): Promise<Answer<History>> => {
    const ask = (question: ReturnType<typeof questions>[number]) =>
      client.get<QueryAnswer>('/v1/query', question, signal)
    const answers = await Promise.all(questions(range).map(ask))
    return { body: historyOf(range, answers.map(({ body }) => body)), time: answers[0]?.time ?? '' }
  }
}

/** What a minute was like is told when it is over; within so long it is. */
const TOLD_WITHIN_S = 3

export function historyOf(range: Range, [quality, ends]: QueryAnswer[]): History {
  const times = (quality?.times ?? []).map((time) => Date.parse(time) / 1000)
  const minutes = MINUTES[RANGES[range].step]
  const untilS = Date.parse(quality?.as_of.time ?? '') / 1000 - minutes * 60 - TOLD_WITHIN_S
  const filled = (series: Series | undefined): Line => times.map((_, i) => series?.values[i] ?? null)
  const line = (name: string) => filled(quality?.series.find((series) => series.name === name))
  const [lost, expected, running] = [line('lost'), line('expected'), line('running')]
  // The series of a single metric has no name.
  const ended = filled(ends?.series[0])
  const known = (values: Line) => values.map((value, i) => (running[i] ? value : null))
  const endedTotal = sum(ended)
  const isEmpty = sum(running) + endedTotal === 0
  /** How many, in the minutes that are over. */
  const counts = (values: Line, per: number) =>
    values.map((value, i) => (isEmpty || (times[i] ?? 0) > untilS ? null : (value ?? 0) / per))
  return {
    range,
    times,
    running: counts(running, minutes),
    ended: counts(ended, 1),
    endedTotal,
    loss: lost.map((value, i) => (expected[i] ? (value ?? 0) / expected[i] : null)),
    lossP90: known(line('loss_p90')),
    mosP50: known(line('mos_p50')),
    mosP10: known(line('mos_p10')),
    jitterP50: known(line('jitter_p50')),
    jitterP90: known(line('jitter_p90')),
    rttP50: known(line('rtt_p50')),
    rttP90: known(line('rtt_p90')),
  }
}

function sum(line: Line): number {
  return line.reduce<number>((sum, value) => sum + (value ?? 0), 0)
}
