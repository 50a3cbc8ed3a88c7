/** The hosts of the mock game: generated readings that oscillate around a mean. */

const MINUTE = 60_000
const GB = 1e9
const MB = 1e6
/** A silent host has sent no readings for this long. */
const SILENT_MS = 23 * MINUTE

const HOSTS = [
  { name: 'db-1', cpu: 58, memory: 27.4 * GB, total: 32 * GB, full: 93, cores: 8, sources: ['postgres', 'redis'] },
  { name: 'web-1', cpu: 21, memory: 5.1 * GB, total: 16 * GB, full: 38, cores: 4, sources: ['nginx'] },
  { name: 'web-2', cpu: 24, memory: 5.4 * GB, total: 16 * GB, full: 41, cores: 4, sources: ['nginx'] },
  { name: 'worker-eu-west-with-a-long-name', cpu: 77, memory: 11 * GB, total: 16 * GB, full: 12, cores: 16, sources: [] },
  { name: 'staging', cpu: 3, memory: 1.2 * GB, total: 4 * GB, full: 55, cores: 2, sources: [], isSilent: true },
]

/** Each metric of a host as a function of a wave between -1 and 1. */
const METRICS = {
  'host.cpu': ({ cpu }, wave) => cpu * (1 + 0.25 * wave),
  'host.cpu_user': ({ cpu }, wave) => cpu * (0.72 + 0.2 * wave),
  'host.cpu_system': ({ cpu }, wave) => cpu * (0.22 + 0.04 * wave),
  'host.cpu_iowait': ({ cpu }, wave) => cpu * (0.07 - 0.03 * wave),
  'host.cpu_steal': ({ cpu }, wave) => cpu * (0.02 + 0.01 * wave),
  'host.cores': ({ cores }) => cores,
  'host.load_1': ({ cpu, cores }, wave) => (cpu / 100) * cores * (1 + 0.4 * wave),
  'host.load_5': ({ cpu, cores }, wave) => (cpu / 100) * cores * (1 + 0.2 * wave),
  'host.load_15': ({ cpu, cores }, wave) => (cpu / 100) * cores * (1 + 0.1 * wave),
  'host.memory_used': ({ memory }, wave) => memory * (1 + 0.04 * wave),
  'host.memory_total': ({ total }) => total,
  'host.swap_used': ({ memory }) => memory * 0.02,
  'host.disk_full': ({ full }) => full,
  'host.disk_read': ({ cpu }, wave) => cpu * 0.4 * MB * (1 + 0.8 * wave),
  'host.disk_write': ({ cpu }, wave) => cpu * 0.9 * MB * (1 - 0.5 * wave),
  'host.network_received': ({ cpu }, wave) => cpu * 0.12 * MB * (1 + 0.3 * wave),
  'host.network_sent': ({ cpu }, wave) => cpu * 0.31 * MB * (1 + 0.3 * wave),
  'host.pressure_cpu': ({ cpu }, wave) => cpu * 0.1 * (1 + wave),
  'host.pressure_memory': () => 0,
  'host.pressure_io': ({ cpu }, wave) => cpu * 0.05 * (1 - wave),
  'host.processes': ({ cores }, wave) => 90 + 30 * cores + 4 * wave,
  'host.processes_running': ({ cpu }, wave) => (cpu / 20) * (1 + 0.5 * wave),
  'host.processes_blocked': (_, wave) => 0.4 + 0.4 * wave,
  'postgres.connections': (_, wave) => 46 + 6 * wave,
  'postgres.active': (_, wave) => 9 + 5 * wave,
  'postgres.idle_in_transaction': (_, wave) => 2 + 2 * wave,
  'postgres.waiting_for_lock': (_, wave) => 0.5 + 0.5 * wave,
  'postgres.commits': (_, wave) => 310 + 90 * wave,
  'postgres.rollbacks': (_, wave) => 3 + 2 * wave,
  'postgres.hit_share': (_, wave) => 99.2 + 0.4 * wave,
  'postgres.longest_transaction': (_, wave) => 2 + 1.8 * wave,
  'postgres.size': () => 41.7 * GB,
  'postgres.replication_lag': (_, wave) => 0.4 + 0.3 * wave,
  'redis.memory_used': (_, wave) => 812 * MB * (1 + 0.02 * wave),
  'redis.clients': (_, wave) => 31 + 3 * wave,
  'redis.commands': (_, wave) => 4_100 + 900 * wave,
  'redis.hits': (_, wave) => 2_600 + 500 * wave,
  'redis.misses': (_, wave) => 190 - 60 * wave,
  'redis.keys': (_, wave) => 1_204_000 + 9_000 * wave,
  'redis.evicted': (_, wave) => 2 + 2 * wave,
  'redis.hit_share': (_, wave) => 93 + 2 * wave,
  'nginx.active': (_, wave) => 182 + 40 * wave,
  'nginx.reading': (_, wave) => 3 + 2 * wave,
  'nginx.writing': (_, wave) => 21 + 8 * wave,
  'nginx.waiting': (_, wave) => 158 + 30 * wave,
  'nginx.requests': (_, wave) => 940 + 220 * wave,
  'nginx.dropped': () => 0,
}

/** The parts of a host with their current metrics. */
const PARTS = ({ cpu, memory, full }) => ({
  '/': { 'mount.used': full * 0.9 * GB, 'mount.total': 90 * GB },
  '/var/lib/data': { 'mount.used': full * 4.6 * GB, 'mount.total': 500 * GB },
  nvme0n1: { 'device.read': cpu * 0.3 * MB, 'device.write': cpu * 0.8 * MB, 'device.busy': cpu * 0.6 },
  sda: { 'device.read': cpu * 0.1 * MB, 'device.write': cpu * 0.1 * MB, 'device.busy': cpu * 0.2 },
  eth0: { 'interface.received': cpu * 0.12 * MB, 'interface.sent': cpu * 0.31 * MB, 'interface.errors': 0 },
  wg0: { 'interface.received': 4_100, 'interface.sent': 3_900, 'interface.errors': 0.02 },
  playmeter: { 'process.cpu': cpu * 0.4, 'process.memory': memory * 0.18 },
  postgres: { 'process.cpu': cpu * 0.3, 'process.memory': memory * 0.41 },
  'node worker': { 'process.cpu': cpu * 0.12, 'process.memory': memory * 0.09 },
  sshd: { 'process.cpu': 0.02, 'process.memory': 31 * MB },
})

const LENGTHS = { '60m': 60, '6h': 360, '24h': 1_440, '7d': 168, '5m': 5 }

export class Hosts {
  isEmpty

  constructor(empty) {
    this.isEmpty = empty
  }

  dimensions() {
    const own = this.isEmpty ? [] : ['host', 'host_part']
    return { dimensions: ['country', 'platform', ...own].map((name) => ({ name, declared: true, overflowed: false })) }
  }

  /** Returns the current result of a query about hosts. */
  result({ metrics, last, step, by, where }) {
    const stepMs = step === 'hour' ? 60 * MINUTE : MINUTE
    const length = step === 'all' ? 1 : LENGTHS[last]
    const newest = Math.floor(Date.now() / stepMs)
    const slots = Array.from({ length }, (_, i) => newest - length + 1 + i)
    const list = metrics.map(({ as, metric }) => ({ as, metric }))
    const series = by?.[0] === 'host_part' ? parts(list) : lines(list, { by, where, slots, stepMs })
    // Like the server: the series of a single metric has no name.
    if (metrics.length === 1) series.forEach((it) => delete it.name)
    const as_of = { time: new Date().toISOString(), position: '0/0' }
    return { as_of, step, tz: 'UTC', times: slots.map((slot) => new Date(slot * stepMs).toISOString()), series }
  }
}

function lines(list, { by, where, slots, stepMs }) {
  const hosts = HOSTS.filter(({ name }) => !where || where.host.includes(name))
  return hosts.flatMap((host, n) =>
    list.filter(({ metric }) => hasMetric(host, metric)).map(({ as, metric }) => {
      const value = (slot) =>
        host.isSilent && slot * stepMs > Date.now() - SILENT_MS ? null : METRICS[metric](host, wave(slot + 7 * n))
      return { name: as, key: by ? { host: host.name } : {}, values: slots.map(value), total: 0 }
    }),
  )
}

function hasMetric({ sources }, metric) {
  const [source] = metric.split('.')
  return source === 'host' || sources.includes(source)
}

function parts(list) {
  return HOSTS.filter(({ isSilent }) => !isSilent).flatMap((host) =>
    [...Object.entries(PARTS(host)), ...host.sources.map(sourceState)].flatMap(([part, values]) =>
      list
        .filter(({ metric }) => metric in values)
        .map(({ as, metric }) => ({ name: as, key: { host_part: `${host.name}/${part}` }, values: [values[metric]], total: 0 })),
    ),
  )
}

/** The state of a source. A source may have the same name as a process. */
function sourceState(source) {
  return [source, { 'agent.source_up': source === 'redis' ? 0 : 1 }]
}

function wave(slot) {
  return 0.7 * Math.sin(slot / 9) + 0.3 * Math.sin(slot / 2.3)
}
