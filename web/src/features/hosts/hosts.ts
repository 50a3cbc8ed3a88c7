/** Derives hosts and their parts from query results. Uses neither clock nor browser. */
import type { QueryResult } from '../../stream/protocol'
import { OTHER } from '../../stream/query-results'

export type Values = (number | null)[]

/** A host without readings for this many whole minutes is silent. */
const SILENT_MINUTES = 2
const MINUTE_MS = 60_000

export interface Host {
  name: string
  /** Percent of all processors. This and the values below are those of the latest minute with a reading. */
  cpu: number | undefined
  /** Shares, 0 to 1. */
  memory: number | undefined
  disk: number | undefined
  /** Bytes a second. */
  received: number | undefined
  sent: number | undefined
  load: number | undefined
  cores: number | undefined
  /** The latest minute with a reading, epoch milliseconds. */
  lastSeenMs: number
  isSilent: boolean
  /** Percent of all processors, per minute. */
  cpuLine: Values
}

/** Returns the hosts of a result per minute, sorted by name. */
export function hostsOf(result: QueryResult, nowMs: number): Host[] {
  return [...linesByHost(result)]
    .map(([name, lines]) => hostOf(name, lines, result.times, nowMs))
    .filter((host): host is Host => host !== undefined)
    .sort((one, other) => one.name.localeCompare(other.name, 'en', { numeric: true }))
}

/** Returns true if the result is truncated: the rows that are left out are summed in one. */
export function isTruncated(result: QueryResult | undefined): boolean {
  return result?.series.some(({ key }) => Object.values(key).includes(OTHER)) ?? false
}

/** Returns the values of each host by metric. */
function linesByHost({ series }: QueryResult): Map<string, Map<string, Values>> {
  const hosts = new Map<string, Map<string, Values>>()
  for (const { name = '', key, values } of series) {
    const { host = '' } = key
    if (host === '' || host === OTHER) continue
    hosts.set(host, (hosts.get(host) ?? new Map<string, Values>()).set(name, values))
  }
  return hosts
}

function hostOf(name: string, lines: Map<string, Values>, times: string[], nowMs: number): Host | undefined {
  const total = lines.get('host.memory_total') ?? []
  const at = total.findLastIndex((value) => value !== null)
  if (at < 0) return undefined
  const newest = (metric: string) => lines.get(metric)?.[at] ?? undefined
  const used = newest('host.memory_used')
  const full = newest('host.disk_full')
  const lastSeenMs = Date.parse(times[at] ?? '')
  return {
    name,
    cpu: newest('host.cpu'),
    memory: used === undefined ? undefined : used / (total[at] || 1),
    disk: full === undefined ? undefined : full / 100,
    received: newest('host.network_received'),
    sent: newest('host.network_sent'),
    load: newest('host.load_1'),
    cores: newest('host.cores'),
    lastSeenMs,
    isSilent: nowMs - lastSeenMs > (SILENT_MINUTES + 1) * MINUTE_MS,
    cpuLine: lines.get('host.cpu') ?? times.map(() => null),
  }
}

/** A chart shows at least so many slots, so that the first readings of a host are a line and not a wall. */
const SLOTS_MIN = 10

/** Returns the values from the first known one on. */
export function sinceFirst(values: Values): Values {
  const first = values.findIndex((value) => value !== null)
  return first < 0 ? values : values.slice(Math.max(0, Math.min(first, values.length - SLOTS_MIN)))
}

/** Lines by metric, all with the same times. */
export interface HostLines {
  /** Epoch seconds. */
  times: number[]
  of: (metric: string) => Values
  /** Returns true if any of the metrics has a value in the range. */
  has: (metrics: string[]) => boolean
}

/** Combines the last `count` times of several results about one host, from the first reading on. */
export function hostLines(results: readonly (QueryResult | undefined)[], count: number): HostLines {
  const all = new Map<string, Values>()
  const last = results.find((result) => result)?.times.slice(-count) ?? []
  const times = last.slice(Math.max(0, Math.min(firstReading(results, last), last.length - SLOTS_MIN)))
  for (const result of results) {
    const places = new Map((result?.times ?? []).map((time, i) => [time, i]))
    for (const { name = '', values } of result?.series ?? []) {
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

/** Returns the index of the first time with a value in any result; 0 if there is none. */
function firstReading(results: readonly (QueryResult | undefined)[], times: string[]): number {
  const known = new Set<string>()
  for (const { times, series } of results.filter((result) => result !== undefined)) {
    times.forEach((time, i) => series.some(({ values }) => values[i] != null) && known.add(time))
  }
  return Math.max(0, times.findIndex((time) => known.has(time)))
}

/** A part of a host with its latest values by metric. */
export interface Part {
  name: string
  of: (metric: string) => number | undefined
}

/** Returns the parts of a host that have any of the metrics, sorted by the first metric, greatest first. */
export function partsOf(result: QueryResult | undefined, host: string, metrics: readonly string[]): Part[] {
  const parts = new Map<string, Map<string, number>>()
  const [first = ''] = metrics
  // A result with a single metric does not name it.
  for (const { name = first, key, values } of result?.series ?? []) {
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
