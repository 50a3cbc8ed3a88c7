/** What answers say of hosts and their parts. No clock, no browser. */
import { OTHER } from '../../stream/answer'
import type { QueryAnswer } from '../../stream/protocol'

export type Line = (number | null)[]

/** A host that has told nothing in so many whole minutes is silent. */
const SILENT_MINUTES = 2
const MINUTE_MS = 60_000

export interface Host {
  name: string
  /** Percent of all processors; the newest minute that is known, as all below. */
  cpu: number | undefined
  /** Shares, 0 to 1. */
  memory: number | undefined
  disk: number | undefined
  /** Bytes a second. */
  received: number | undefined
  sent: number | undefined
  load: number | undefined
  cores: number | undefined
  /** The last minute it told of, epoch milliseconds. */
  lastMs: number
  isSilent: boolean
  /** Percent of all processors, by the minute. */
  cpuLine: Line
}

/** All hosts of an answer by the minute, by name. */
export function hostsOf(answer: QueryAnswer, nowMs: number): Host[] {
  return [...linesByHost(answer)]
    .map(([name, lines]) => hostOf(name, lines, answer.times, nowMs))
    .filter((host): host is Host => host !== undefined)
    .sort((one, other) => one.name.localeCompare(other.name, 'en', { numeric: true }))
}

/** Whether there is more than is told apart: what is left out is in one row. */
export function leavesOut(answer: QueryAnswer | undefined): boolean {
  return answer?.series.some(({ key }) => Object.values(key).includes(OTHER)) ?? false
}

/** The values of each host, by metric. */
function linesByHost({ series }: QueryAnswer): Map<string, Map<string, Line>> {
  const hosts = new Map<string, Map<string, Line>>()
  for (const { name = '', key, values } of series) {
    const { host = '' } = key
    if (host === '' || host === OTHER) continue
    hosts.set(host, (hosts.get(host) ?? new Map<string, Line>()).set(name, values))
  }
  return hosts
}

function hostOf(name: string, lines: Map<string, Line>, times: string[], nowMs: number): Host | undefined {
  const total = lines.get('host.memory_total') ?? []
  const at = total.findLastIndex((value) => value !== null)
  if (at < 0) return undefined
  const newest = (metric: string) => lines.get(metric)?.[at] ?? undefined
  const used = newest('host.memory_used')
  const full = newest('host.disk_full')
  const lastMs = Date.parse(times[at] ?? '')
  return {
    name,
    cpu: newest('host.cpu'),
    memory: used === undefined ? undefined : used / (total[at] || 1),
    disk: full === undefined ? undefined : full / 100,
    received: newest('host.network_received'),
    sent: newest('host.network_sent'),
    load: newest('host.load_1'),
    cores: newest('host.cores'),
    lastMs,
    isSilent: nowMs - lastMs > (SILENT_MINUTES + 1) * MINUTE_MS,
    cpuLine: lines.get('host.cpu') ?? times.map(() => null),
  }
}

/** Lines by metric, at the same times. */
export interface Lines {
  /** Epoch seconds. */
  times: number[]
  of: (metric: string) => Line
  /** Whether any of these metrics was ever told in this time. */
  has: (metrics: string[]) => boolean
}

/** The last `count` times of several answers to questions about one host. */
export function linesOf(answers: readonly (QueryAnswer | undefined)[], count: number): Lines {
  const all = new Map<string, Line>()
  const times = answers.find((answer) => answer)?.times.slice(-count) ?? []
  for (const answer of answers) {
    const places = new Map((answer?.times ?? []).map((time, i) => [time, i]))
    for (const { name = '', values } of answer?.series ?? []) {
      all.set(name, times.map((time) => values[places.get(time) ?? -1] ?? null))
    }
  }
  const of = (metric: string) => all.get(metric) ?? times.map(() => null)
  return {
    times: times.map((time) => Date.parse(time) / 1000),
    of,
    has: (metrics) => metrics.some((metric) => of(metric).some((value) => value !== null)),
  }
}

/** A part of a host, and its newest values by metric. */
export interface Part {
  name: string
  of: (metric: string) => number | undefined
}

/** The parts of a host that have one of these metrics, in the order of the first of them, greatest first. */
export function partsOf(answer: QueryAnswer | undefined, host: string, metrics: readonly string[]): Part[] {
  const parts = new Map<string, Map<string, number>>()
  const [first = ''] = metrics
  // An answer about one metric does not name it.
  for (const { name = first, key, values } of answer?.series ?? []) {
    const part = key.host_part ?? ''
    const value = values.findLast((it) => it !== null)
    if (!part.startsWith(`${host}/`) || !metrics.includes(name) || value == null) continue
    const short = part.slice(host.length + 1)
    parts.set(short, (parts.get(short) ?? new Map<string, number>()).set(name, value))
  }
  return [...parts]
    .map(([name, values]) => ({ name, of: (metric: string) => values.get(metric) }))
    .sort((a, b) => (b.of(first) ?? -1) - (a.of(first) ?? -1) || a.name.localeCompare(b.name))
}
