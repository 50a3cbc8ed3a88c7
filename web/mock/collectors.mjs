/** The collectors of the mock game, with different states and transports. */
const none = {
  received: 0,
  accepted: 0,
  refused: 0,
  reasons: {},
  bytes: 0,
  packets: 0,
  kernel_drops: 0,
  ignored_tags: 0,
  connections: 0,
  connections_total: 0,
  connections_refused: 0,
}

export class Collectors {
  #all
  #sinceMs = Date.now() - 3_700_000

  constructor(empty) {
    this.#all = empty ? [] : generate(this.#sinceMs)
  }

  list() {
    const grown = Math.floor((Date.now() - this.#sinceMs) / 100)
    const [first, ...others] = this.#all
    if (!first) return { collectors: [] }
    const accepted = first.counters.accepted + grown
    const counters = { ...first.counters, accepted, received: accepted + first.counters.refused }
    return { collectors: [{ ...first, counters }, ...others] }
  }
}

function generate(sinceMs) {
  const since = new Date(sinceMs).toISOString()
  const base = { game: 'demo', state: 'running', since, starts: 1, failures: 0, error: null, next_try: null, address: null, receive_buffer_bytes: null }
  return [
    {
      ...base,
      name: 'statsd',
      transport: 'udp',
      decoder: 'statsd',
      address: '127.0.0.1:8125',
      receive_buffer_bytes: 4_194_304,
      counters: {
        ...none,
        accepted: 1_284_301,
        refused: 412,
        reasons: { malformed_line: 371, queue_full: 41 },
        bytes: 48_310_442,
        packets: 96_112,
        kernel_drops: 41,
        ignored_tags: 9_120,
      },
    },
    {
      ...base,
      name: 'telemetry',
      transport: 'tcp_client',
      decoder: 'json',
      state: 'waiting',
      starts: 6,
      failures: 6,
      error: 'connecting to 192.0.2.40:9000: connection refused',
      next_try: new Date(Date.now() + 25_000).toISOString(),
      counters: { ...none, received: 20_411, accepted: 20_411, bytes: 4_102_004, connections_total: 1 },
    },
    {
      ...base,
      name: 'servers',
      transport: 'tcp_server',
      decoder: 'influx',
      address: '10.0.0.4:8094',
      counters: {
        ...none,
        received: 801_220,
        accepted: 801_198,
        refused: 22,
        reasons: { value_not_a_number: 22 },
        bytes: 61_200_871,
        packets: 801_220,
        connections: 14,
        connections_total: 211,
      },
    },
    {
      ...base,
      name: 'sales',
      transport: 'dir',
      decoder: 'csv',
      state: 'stopped',
      counters: { ...none, received: 5_031, accepted: 5_031, bytes: 610_233, packets: 12 },
    },
  ]
}
