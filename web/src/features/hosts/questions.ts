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

const named = (measure: 'avg' | 'last', metrics: readonly string[]) =>
  metrics.map((metric) => ({ as: metric, metric, measure }))

/** How all hosts do, over the last hour: an hour of minutes leaves room for so many rows. */
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
  top: ROWS_MAX,
}

const OF_A_HOST = [
  ['host.cpu_user', 'host.cpu_system', 'host.cpu_iowait', 'host.cpu_steal', 'host.load_1', 'host.load_5', 'host.load_15', 'host.cores'],
  ['host.memory_used', 'host.memory_total', 'host.swap_used', 'host.network_received', 'host.network_sent', 'host.disk_read', 'host.disk_write'],
  ['host.pressure_cpu', 'host.pressure_memory', 'host.pressure_io', 'host.processes', 'host.processes_running', 'host.processes_blocked'],
  ['postgres.connections', 'postgres.active', 'postgres.idle_in_transaction', 'postgres.waiting_for_lock', 'postgres.commits', 'postgres.rollbacks', 'postgres.hit_share', 'postgres.longest_transaction', 'postgres.size', 'postgres.replication_lag'],
  ['redis.memory_used', 'redis.clients', 'redis.commands', 'redis.hits', 'redis.misses', 'redis.keys', 'redis.evicted', 'redis.hit_share'],
  ['nginx.active', 'nginx.reading', 'nginx.writing', 'nginx.waiting', 'nginx.requests', 'nginx.dropped'],
]

/**
 * The figures of each kind of part. Each is a question of its own: its rows are ranked by the first of its figures, so
 * among parts of other kinds those without it would be the first to be left out.
 */
export const KINDS = {
  mount: ['mount.used', 'mount.total'],
  device: ['device.busy', 'device.read', 'device.write'],
  interface: ['interface.received', 'interface.sent', 'interface.errors'],
  process: ['process.cpu', 'process.memory'],
  source: ['agent.source_up'],
} as const
export type Kind = keyof typeof KINDS
export const KIND_NAMES = Object.keys(KINDS) as Kind[]

/** How one host does: its lines over the range, then its parts as they are now, kind by kind. */
export function questionsOf(host: string, range: Range): Question[] {
  const { step } = RANGES[range]
  const lines = OF_A_HOST.map((metrics) => ({
    metrics: named('avg', metrics),
    last: range,
    step,
    where: { host: [host] },
  }))
  const parts = KIND_NAMES.map((kind) => ({
    metrics: named(kind === 'source' ? 'last' : 'avg', KINDS[kind]),
    last: NEWEST,
    step: 'all',
    by: ['host_part'],
    top: ROWS_MAX,
  }))
  return [...lines, ...parts]
}

/** Of the answers to `questionsOf`: those with the lines. */
export function lineAnswers<A>(answers: readonly A[]): readonly A[] {
  return answers.slice(0, OF_A_HOST.length)
}

/** Of the answers to `questionsOf`: the one with the parts of a kind. */
export function partAnswer<A>(answers: readonly A[], kind: Kind): A | undefined {
  return answers[OF_A_HOST.length + KIND_NAMES.indexOf(kind)]
}
