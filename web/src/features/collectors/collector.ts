/** Collectors as the server tells them. */

export type State = 'starting' | 'running' | 'waiting' | 'stopped'

export interface Collector {
  name: string
  /** `udp`, `tcp_server`, `tcp_client`, `dir`. */
  transport: string
  decoder: string
  state: State
  /** Since when it is in this state, RFC 3339. */
  since: string
  starts: number
  failures: number
  /** The last failure; it stays after the collector runs again. */
  error: string | null
  /** When it is tried again, RFC 3339. */
  next_try: string | null
  /** Where it listens. */
  address: string | null
  receive_buffer_bytes: number | null
  counters: Counters
}

/** Since the server was started. `received` is the sum of `accepted` and `refused`. */
export interface Counters {
  received: number
  accepted: number
  refused: number
  /** Of the refused, how many for which reason. */
  reasons: Record<string, number>
  bytes: number
  packets: number
  /** Packets that the kernel had no room for; they are among the refused. */
  kernel_drops: number
  /** Tags that are no dimensions of the game. */
  ignored_tags: number
  connections: number
  connections_total: number
  connections_refused: number
}

const TRANSPORTS: Record<string, string> = {
  udp: 'UDP',
  tcp_server: 'TCP, listening',
  tcp_client: 'TCP, connecting',
  dir: 'files of a folder',
}

/** `statsd over UDP, at 127.0.0.1:8125`. */
export function inWords({ decoder, transport, address }: Collector): string {
  const what = `${decoder} over ${TRANSPORTS[transport] ?? transport}`
  return address ? `${what}, at ${address}` : what
}

export function isTcp({ transport }: Collector): boolean {
  return transport.startsWith('tcp')
}

/** Why something was refused, the most frequent reason first. */
export function reasonsOf({ counters }: Collector): [string, number][] {
  return Object.entries(counters.reasons)
    .filter(([, count]) => count > 0)
    .sort(([, a], [, b]) => b - a)
}

/** What is typed on the server's machine to tell a collector something. */
export function commandOf(order: 'start' | 'stop' | 'restart', name: string): string {
  return `playmeter collectors ${order} ${name}`
}

/** The settings of a first collector. */
export const FIRST = `[collectors.statsd]
transport = "udp"
decoder = "statsd"
listen = "127.0.0.1:8125"`
