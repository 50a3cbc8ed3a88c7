/** Queries of the host pages. A query is limited to ten metrics. */

export const RANGES = {
  '60m': { name: '1 hour', step: 'minute', stepMs: 60_000, count: 60 },
  '6h': { name: '6 hours', step: 'minute', stepMs: 60_000, count: 360 },
  '24h': { name: '24 hours', step: 'minute', stepMs: 60_000, count: 1_440 },
  '7d': { name: '7 days', step: 'hour', stepMs: 3_600_000, count: 168 },
} as const
export type Range = keyof typeof RANGES

export function parseRange(text: string): Range {
  return text in RANGES ? (text as Range) : '60m'
}

export interface HostQuery {
  metrics: { as: string; metric: string; measure: 'avg' | 'last' }[]
  last: string
  step: string
  by?: string[]
  where?: Record<string, string[]>
  top?: number
}

/** Current values are averages of this period: a part that stops reporting disappears after it. */
const CURRENT_PERIOD = '5m'
/** The maximum number of rows of a query. */
const ROWS_MAX = 1_000

const withMeasure = (measure: 'avg' | 'last', metrics: readonly string[]) =>
  metrics.map((metric) => ({ as: metric, metric, measure }))

/** The metrics of all hosts over the last hour. */
export const OVERVIEW: HostQuery = {
  metrics: withMeasure('avg', [
    'host.cpu',
    'host.memory_used',
    'host.memory_total',
    'host.disk_full',
    'host.network_received',
    'host.network_sent',
    'host.load_1',
    'host.cores',
  ]),
  last: '60m',
  step: 'minute',
  by: ['host'],
  top: ROWS_MAX,
}

const HOST_METRICS = [
  ['host.cpu_user', 'host.cpu_system', 'host.cpu_iowait', 'host.cpu_steal', 'host.load_1', 'host.load_5', 'host.load_15', 'host.cores'],
  ['host.memory_used', 'host.memory_total', 'host.swap_used', 'host.network_received', 'host.network_sent', 'host.disk_read', 'host.disk_write'],
  ['host.pressure_cpu', 'host.pressure_memory', 'host.pressure_io', 'host.processes', 'host.processes_running', 'host.processes_blocked'],
  ['postgres.connections', 'postgres.active', 'postgres.idle_in_transaction', 'postgres.waiting_for_lock', 'postgres.commits', 'postgres.rollbacks', 'postgres.hit_share', 'postgres.longest_transaction', 'postgres.size', 'postgres.replication_lag'],
  ['redis.memory_used', 'redis.clients', 'redis.commands', 'redis.hits', 'redis.misses', 'redis.keys', 'redis.evicted', 'redis.hit_share'],
  ['nginx.active', 'nginx.reading', 'nginx.writing', 'nginx.waiting', 'nginx.requests', 'nginx.dropped'],
]

/**
 * The metrics of each kind of part. Each kind is a query of its own: rows are ranked by the first metric, so in a
 * combined query the kinds without that metric would be cut off first.
 */
export const PART_METRICS = {
  mount: ['mount.used', 'mount.total'],
  device: ['device.busy', 'device.read', 'device.write'],
  interface: ['interface.received', 'interface.sent', 'interface.errors'],
  process: ['process.cpu', 'process.memory'],
  source: ['agent.source_up'],
} as const
export type PartKind = keyof typeof PART_METRICS
export const PART_KINDS = Object.keys(PART_METRICS) as PartKind[]

/** Returns the queries of one host: its lines over the range, then the current values of its parts, by kind. */
export function hostQueries(host: string, range: Range): HostQuery[] {
  const { step } = RANGES[range]
  const lines = HOST_METRICS.map((metrics) => ({
    metrics: withMeasure('avg', metrics),
    last: range,
    step,
    where: { host: [host] },
  }))
  const parts = PART_KINDS.map((kind) => ({
    metrics: withMeasure(kind === 'source' ? 'last' : 'avg', PART_METRICS[kind]),
    last: CURRENT_PERIOD,
    step: 'all',
    by: ['host_part'],
    top: ROWS_MAX,
  }))
  return [...lines, ...parts]
}

/** Returns those results of `hostQueries` that contain lines. */
export function lineResults<R>(results: readonly R[]): readonly R[] {
  return results.slice(0, HOST_METRICS.length)
}

/** Returns the result of `hostQueries` that contains the parts of a kind. */
export function partResult<R>(results: readonly R[], kind: PartKind): R | undefined {
  return results[HOST_METRICS.length + PART_KINDS.indexOf(kind)]
}
