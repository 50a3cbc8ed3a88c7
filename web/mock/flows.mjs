/** The flows of the mock game: generated calls that continue by themselves, and flows reported by packets. */
import { ProblemError } from './problem.mjs'

const ENDED_MAX = 100
const WORST_MAX = 50
const HOUR_OF_MINUTES = 60
const MINUTE = 60_000
/** The history of each metric and measure: a mean and the amplitude of a wave. */
const PAST = {
  '$flow.mos count': (wave) => Math.round(42 + 9 * wave),
  '$flow.mos p50': (wave) => 4.33 + 0.04 * wave,
  '$flow.mos p10': (wave) => 3.7 + 0.25 * wave,
  '$flow.lost sum': (wave) => Math.round(900 + 500 * wave),
  '$flow.expected sum': (wave) => Math.round(126_000 + 27_000 * wave),
  '$flow.loss p90': (wave) => 0.021 + 0.012 * wave,
  '$flow.jitter_ms p50': (wave) => 3.2 + 0.6 * wave,
  '$flow.jitter_ms p90': (wave) => 17 + 6 * wave,
  '$flow.rtt_ms p50': (wave) => 48 + 5 * wave,
  '$flow.rtt_ms p90': (wave) => 142 + 30 * wave,
  '$flow count': (wave) => Math.round(6 + 3 * wave),
}

export class Flows {
  flows = new Map()
  ended = []
  number = 0
  isEmpty

  constructor(empty) {
    this.isEmpty = empty
    if (empty) return
    for (let i = 0; i < 46; i++) this.#generate(i)
    for (let i = 13; i >= 0; i--) this.#end(this.#generate(100 + i), i % 4 === 0 ? 'silence' : 'bye', Date.now() - i * 41_000)
  }

  #generate(i) {
    const quality = { loss: i % 9 === 2 ? 0.06 + (i % 5) * 0.03 : (i % 4) * 0.002, jitter_ms: 2 + (i % 7) * (i % 9 === 2 ? 9 : 1.3) }
    const flow = this.#open(`caller-${1200 + i * 7}`, `room-${1 + (i % 11)}`, Date.now() - (i * 37_000 + 8_000))
    flow.addresses = [`198.51.100.${10 + i}:${40_000 + i}`, `203.0.113.7:${16_384 + 2 * (i % 11)}`]
    const expected = 3_000
    const lost = Math.round(expected * quality.loss)
    const way = { highest: 9_000 + i, lowest: 9_001 + i - expected, received: expected - lost, duplicated: i % 3, reordered: i % 5 }
    flow.ways = [{ ...way, jitter_ms: quality.jitter_ms }, { ...way, jitter_ms: quality.jitter_ms * 0.8 }]
    flow.rtt_ms = i % 3 === 1 ? null : 30 + (i % 13) * 11
    return flow
  }

  #open(from, to, startedMs = Date.now()) {
    const id = (++this.number).toString(16).padStart(16, '0')
    const none = () => ({ highest: null, lowest: null, received: 0, duplicated: 0, reordered: 0, jitter_ms: 0 })
    const flow = { id, from, to, startedMs, lastMs: Date.now(), addresses: [null, null], moves: 0, rtt_ms: null, ways: [none(), none()] }
    this.flows.set([from, to].sort().join('\n'), flow)
    return flow
  }

  #end(flow, cause, endedMs = Date.now()) {
    this.flows.delete([flow.from, flow.to].sort().join('\n'))
    this.ended = [{ ...flow, ended: { cause, endedMs } }, ...this.ended].slice(0, ENDED_MAX)
  }

  /** Applies packets, one JSON object per line. */
  apply(text) {
    const receipt = { received: 0, counted: 0, opened: 0, ended: 0, stragglers: 0, limited: 0, ignored: 0, invalid: 0, reasons: {} }
    for (const line of text.split('\n').filter(Boolean)) {
      receipt.received += 1
      const { from, to, seq, bye } = JSON.parse(line)
      const known = this.flows.get([from, to].sort().join('\n'))
      if (bye) {
        if (known) this.#end(known, 'bye')
        receipt[known ? 'ended' : 'ignored'] += 1
        continue
      }
      const flow = known ?? this.#open(from, to)
      const way = flow.ways[flow.from === from ? 0 : 1]
      way.highest = Math.max(way.highest ?? seq, seq)
      way.lowest = Math.min(way.lowest ?? seq, seq)
      way.received += 1
      flow.lastMs = Date.now()
      receipt.opened += known ? 0 : 1
      receipt.counted += 1
    }
    return receipt
  }

  /** Adds packets to the generated calls. */
  advance() {
    for (const flow of this.flows.values()) {
      if (!flow.addresses[0]) continue
      flow.lastMs = Date.now()
      flow.ways.forEach((way) => {
        way.highest += 50
        way.received += Math.random() < 0.9 ? 50 : 48
      })
    }
  }

  message() {
    const flows = this.#describe().sort((a, b) => a.recent.mos - b.recent.mos)
    return { sub: 'flows', topic: 'flows', running: flows.length, now: now(flows), flows: flows.slice(0, WORST_MAX) }
  }

  list({ sort = 'mos', end, address, mos_below, loss_above, page = 1, per_page = 100 }) {
    const all = this.#describe()
    const fits = (flow) =>
      (!end || flow.from.id === end || flow.to.id === end) &&
      (!address || [flow.from, flow.to].some((at) => at.address?.startsWith(`${address}:`))) &&
      (!mos_below || flow.recent.mos < Number(mos_below)) &&
      (!loss_above || flow.recent.loss > Number(loss_above))
    const rank = {
      mos: (flow) => flow.recent.mos,
      loss: (flow) => -flow.recent.loss,
      jitter: (flow) => -flow.recent.jitter_ms,
      rtt: (flow) => -(flow.recent.rtt_ms ?? -1),
      started: (flow) => -Date.parse(flow.started),
      last_seen: (flow) => -Date.parse(flow.last_seen),
    }[sort]
    if (!rank) throw new ProblemError(400, '`sort` must be one of the listed orders', 'sort')
    const matched = all.filter(fits).sort((a, b) => rank(a) - rank(b))
    const [number, size] = [Number(page), Number(per_page)]
    const flows = matched.slice((number - 1) * size, number * size)
    return { flows, matched: matched.length, running: all.length, now: now(all), page: number, per_page: size }
  }

  listEnded() {
    return { flows: this.ended.map(describe), kept_max: ENDED_MAX }
  }

  one(id) {
    const found = [...this.flows.values(), ...this.ended].find((flow) => flow.id === id)
    if (!found) throw new ProblemError(404, 'there is no active or recently ended flow with this id')
    return describe(found)
  }

  /** Returns the query results of the charts: a wave around a mean, per minute or hour. */
  query({ last, step, metrics, metric, measure = 'count' }) {
    const stepMs = step === 'hour' ? HOUR_OF_MINUTES * MINUTE : MINUTE
    const length = { '60m': 60, '6h': 360, '24h': 1_440, '7d': 168 }[last] ?? 60
    const newest = Math.floor(Date.now() / stepMs)
    const slots = Array.from({ length }, (_, i) => newest - length + 1 + i)
    const list = metrics ? JSON.parse(metrics) : [{ metric, measure }]
    const series = list.map(({ as, metric, measure }) => {
      const past = PAST[`${metric} ${measure}`]
      const value = (slot) => (this.isEmpty || !past || slot === newest ? (measure === 'count' ? 0 : null) : past(wave(slot)))
      const values = slots.map(value)
      return { ...(list.length > 1 ? { name: as } : {}), key: {}, values, total: values.reduce((sum, it) => sum + (it ?? 0), 0) }
    })
    const as_of = { time: new Date().toISOString(), position: '0/0' }
    return { as_of, step, tz: 'UTC', times: slots.map((slot) => new Date(slot * stepMs).toISOString()), series }
  }

  #describe() {
    return [...this.flows.values()].map(describe)
  }
}

function wave(slot) {
  return 0.7 * Math.sin(slot / 9) + 0.3 * Math.sin(slot / 2.3)
}

function describe(flow) {
  const { id, from, to, addresses, moves, ways, ended } = flow
  const quality = qualityOf(flow)
  const iso = (ms) => new Date(ms).toISOString()
  const summary = {
    id,
    from: { id: from, address: addresses[0] },
    to: { id: to, address: addresses[1] },
    started: iso(flow.startedMs),
    last_seen: iso(flow.lastMs),
    moves,
    sent: direction(ways[0]),
    received: direction(ways[1]),
    quality,
  }
  if (!ended) return { ...summary, recent: quality }
  const seconds = Math.max(0, (ended.endedMs - flow.startedMs) / 1000)
  return { ...summary, ended: iso(ended.endedMs), ended_by: ended.cause, seconds }
}

function expectedOf({ highest, lowest }) {
  return highest === null ? 0 : highest - lowest + 1
}

function direction({ highest, received, duplicated, reordered, jitter_ms, lowest }) {
  const lost = Math.max(0, expectedOf({ highest, lowest }) - received)
  return { highest: highest ?? 0, received, lost, duplicated, reordered, strays: 0, jitter_ms, reported: false }
}

function qualityOf({ ways, rtt_ms }) {
  const known = ways.filter(({ highest }) => highest !== null)
  const expected = known.reduce((sum, way) => sum + expectedOf(way), 0)
  const lost = known.reduce((sum, way) => sum + direction(way).lost, 0)
  const jitter_ms = Math.max(0, ...known.map((way) => way.jitter_ms))
  const loss = expected === 0 ? 0 : lost / expected
  return { expected, lost, loss, jitter_ms, rtt_ms, mos: mos(loss, jitter_ms, rtt_ms ?? 0) }
}

/** The server's MOS estimate by the E-model (ITU-T G.107). */
function mos(loss, jitter_ms, rtt_ms) {
  const delay = rtt_ms / 2 + 2 * jitter_ms + 10
  const percent = 100 * loss
  const r = 93.2 - 0.024 * delay - 0.11 * Math.max(0, delay - 177.3) - (95 * percent) / (percent + 25.1)
  return r <= 0 ? 1 : Math.max(1, 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r))
}

function now(flows) {
  const sum = (of) => flows.reduce((total, { recent }) => total + of(recent), 0)
  const [expected, lost] = [sum((it) => it.expected), sum((it) => it.lost)]
  const tenths = Array(36).fill(0)
  flows.forEach(({ recent }) => (tenths[Math.min(35, Math.max(0, Math.floor(recent.mos * 10) - 10))] += 1))
  const quantiles = (of, shares) => {
    const values = flows.map(({ recent }) => of(recent)).filter((value) => value !== null).sort((a, b) => a - b)
    if (values.length === 0) return null
    const at = (share) => values[Math.max(0, Math.ceil(share * values.length) - 1)]
    return Object.fromEntries(Object.entries(shares).map(([name, share]) => [name, at(share)]))
  }
  return {
    began: flows.filter(({ started }) => Date.now() - Date.parse(started) < MINUTE).length,
    expected,
    lost,
    loss: expected === 0 ? 0 : lost / expected,
    mos: quantiles((it) => it.mos, { p10: 0.1, p50: 0.5 }),
    mos_tenths: tenths,
    jitter_ms: quantiles((it) => it.jitter_ms, { p50: 0.5, p90: 0.9 }),
    rtt_ms: quantiles((it) => it.rtt_ms, { p50: 0.5, p90: 0.9 }),
  }
}
