/** Collectors as returned by the server. */

export type CollectorState = 'starting' | 'running' | 'failed' | 'stopped'

export interface Collector {
  name: string
  /** `udp`, `unixgram`, `tcp_server`, `tcp_client`, `dir`, `sftp`. */
  transport: string
  decoder: string
  state: CollectorState
  /** The start of the current state, RFC 3339. */
  since: string
  starts: number
  failures: number
  /** The last failure; kept after the collector runs again. */
  error: string | null
  /** The time of the next try, RFC 3339. */
  next_try: string | null
  /** The address it listens on. */
  address: string | null
  receive_buffer_bytes: number | null
  counters: Counters
}

/** Totals since the server started. `received` is the sum of `accepted` and `refused`. */
export interface Counters {
  received: number
  accepted: number
  refused: number
  /** The number of refused events by reason. */
  reasons: Record<string, number>
  bytes: number
  packets: number
  /** Packets that the kernel dropped because the receive buffer was full; counted as refused. */
  kernel_drops: number
  /** Tags that are not dimensions of the game. */
  ignored_tags: number
  connections: number
  connections_total: number
  connections_refused: number
}

const TRANSPORTS: Record<string, string> = {
  udp: 'over UDP',
  unixgram: 'over a Unix socket',
  tcp_server: 'over TCP (server)',
  tcp_client: 'over TCP (client)',
  dir: 'from files in a folder',
  sftp: 'from files received over SFTP',
}

/** Describes a collector: `statsd over UDP at 127.0.0.1:8125`. */
export function describeCollector({ decoder, transport, address }: Collector): string {
  const what = `${decoder} ${TRANSPORTS[transport] ?? `over ${transport}`}`
  return address ? `${what} at ${address}` : what
}

export function isTcp({ transport }: Collector): boolean {
  return transport.startsWith('tcp')
}

/** Returns the reasons of refused events, most frequent first. */
export function sortedReasons({ counters }: Collector): [string, number][] {
  return Object.entries(counters.reasons)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a)
}

/** Returns the command that controls a collector, to run on the server. */
export function controlCommand(action: 'start' | 'stop' | 'restart', name: string): string {
  return `playmeter collectors ${action} ${name}`
}

/** Sample settings of a collector. */
export const SAMPLE_SETTINGS = `[collectors.statsd]
transport = "udp"
decoder = "statsd"
listen = "127.0.0.1:8125"`
