/** What the pages of hosts ask for: lists of figures, each list one question. A question has room for ten. */

export const RANGES = {
  '60m': { name: '1 hour', step: 'minute', stepMs: 60_000, count: 60 },
  '6h': { name: '6 hours', step: 'minute', stepMs: 60_000, count: 360 },
  '24h': { name: '24 hours', step: 'minute', stepMs: 60_000, count: 1_440 },
  '7d': { name: '7 days', step: 'hour', stepMs: 3_600_000, count: 168 },
} as const
export type Range = keyof typeof RANGES

export function rangeOf(asked: string): Range {
  return asked in RANGES ? (asked as Range) : '60m'
}

export interface Question {
  metrics: { as: string; metric: string; measure: 'avg' | 'last' }[]
  last: string
  step: string
  by?: string[]
  where?: Record<string, string[]>
  top?: number
}

/** What is newest is the mean of so long: a part that fell silent is gone after it. */
const NEWEST = '5m'
/** As many rows as a question may have. */
const ROWS_MAX = 1_000

const named = (measure: 'avg' | 'last', metrics: string[]) =>
  metrics.map((metric) => ({ as: metric, metric, measure }))

/** How all hosts do, over the last hour. */
export const OVERVIEW: Question = {
  metrics: named('avg', [
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
  top: 100,
}

const OF_A_HOST = [
  ['host.cpu_user', 'host.cpu_system', 'host.cpu_iowait', 'host.cpu_steal', 'host.load_1', 'host.load_5', 'host.load_15', 'host.cores'],
  ['host.memory_used', 'host.memory_total', 'host.swap_used', 'host.network_received', 'host.network_sent', 'host.disk_read', 'host.disk_write'],
  ['host.pressure_cpu', 'host.pressure_memory', 'host.pressure_io', 'host.processes', 'host.processes_running', 'host.processes_blocked'],
  ['postgres.connections', 'postgres.active', 'postgres.idle_in_transaction', 'postgres.waiting_for_lock', 'postgres.commits', 'postgres.rollbacks', 'postgres.hit_share', 'postgres.longest_transaction', 'postgres.size', 'postgres.replication_lag'],
  ['redis.memory_used', 'redis.clients', 'redis.commands', 'redis.hits', 'redis.misses', 'redis.keys', 'redis.evicted', 'redis.hit_share'],
  ['nginx.active', 'nginx.reading', 'nginx.writing', 'nginx.waiting', 'nginx.requests', 'nginx.dropped'],
]

const OF_PARTS = [
  'mount.used',
  'mount.total',
  'device.read',
  'device.write',
  'device.busy',
  'interface.received',
  'interface.sent',
  'interface.errors',
  'process.cpu',
  'process.memory',
]

/** How one host does: its lines over the range, then its parts and its sources as they are now. */
export function questionsOf(host: string, range: Range): Question[] {
  const { step } = RANGES[range]
  const lines = OF_A_HOST.map((metrics) => ({
    metrics: named('avg', metrics),
    last: range,
    step,
    where: { host: [host] },
  }))
  const now = { last: NEWEST, step: 'all', by: ['host_part'], top: ROWS_MAX }
  return [
    ...lines,
    { metrics: named('avg', OF_PARTS), ...now },
    { metrics: named('last', ['agent.source_up']), ...now },
  ]
}
