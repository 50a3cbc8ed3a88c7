/**
 * A mock game with generated activity: players come and go and send events, a few of which are
 * rejected. Its messages have the shapes of `GET /v1/watch`.
 */

const EVENTS_MAX = 50
const ADDED_MAX = 50
/** Two hosts send 25 values every ten seconds. */
const SAMPLES_PER_SECOND = 5
const OUTCOMES = ['accepted', 'duplicate', 'invalid', 'late', 'limited']
const COUNTRIES = weighted({ FR: 24, US: 20, DE: 13, BR: 11, JP: 9, GB: 8, IN: 6, PL: 4, SE: 3, MX: 2, KR: 2 })
const PLATFORMS = weighted({ web: 50, android: 27, ios: 16, windows: 7 })
const EVENTS = weighted({
  letter_guessed: 44,
  level_start: 16,
  level_win: 11,
  $ping: 9,
  hint_used: 7,
  level_retry: 5,
  $session_start: 3,
  voice_played: 3,
  sticker_won: 2,
  settings_opened: 1,
})
const NAMES = 'ann bo cleo dara eli fay gus hana ivo juno kai lena milo nia otto pia quin rosa sami tess uma vito wren yara zoe'.split(' ')
const REFUSALS = weighted({ 'duplicate ': 52, 'invalid event_name_too_long': 12, 'invalid unknown_field': 15, 'invalid value_not_finite': 6, 'late ': 9, 'limited rate_limited': 6 })
const FIELDS = ['event', 'id', 'ts', 'player', 'session', 'value', 'props', 'source', 'platform', 'version', 'level', 'country']

const SECOND = 1_000
const MINUTE = 60 * SECOND

export class Game {
  /** Seconds since the epoch -> counts. */
  seconds = new Map()
  /** Minutes since the epoch -> {events, byEvent, players by country}. */
  minutes = new Map()
  onlineByMinute = new Map()
  events = []
  pending = []
  totals = Object.fromEntries(['received', ...OUTCOMES].map((name) => [name, 0]))
  reasons = {}
  endpoints = new Map()
  position = 0
  n = 0

  constructor({ rate, empty }) {
    this.rate = rate
    this.since = new Date(new Date().setUTCHours(0, 0, 0, 0)).toISOString()
    if (!empty) this.#generateHistory()
  }

  /** Generates an hour of history. */
  #generateHistory() {
    const now = Date.now()
    for (let at = now - 60 * MINUTE; at < now; at += SECOND) {
      const wave = 0.75 + 0.3 * Math.sin(at / 840_000) + 0.12 * Math.sin(at / 97_000)
      const online = Math.round(this.rate * 3.1 * wave)
      this.onlineByMinute.set(Math.floor(at / MINUTE), online)
      for (let i = poisson(this.rate * wave); i > 0; i--) this.submit(generateEvent(), at)
    }
    this.pending = []
  }

  /** Generates the activity of a fraction of a second, 1 / `parts`. */
  advance(parts) {
    const now = Date.now()
    const wave = 0.75 + 0.3 * Math.sin(now / 840_000) + 0.12 * Math.sin(now / 97_000)
    for (let i = poisson((this.rate * wave) / parts); i > 0; i--) this.submit(generateEvent(), now)
    if (this.rate > 0 && Math.random() < 0.25) {
      const online = this.online() + Math.round(Math.random() * 2.4 - 1.2)
      this.onlineByMinute.set(Math.floor(now / MINUTE), Math.max(0, online))
    }
  }

  /** Counts one event like the server does; returns its outcome. */
  submit(raw, at = Date.now(), result = raw.result ?? admit(raw)) {
    const { outcome, reason } = result
    this.n += 1
    this.position += 117
    this.totals.received += 1
    this.totals[outcome] += 1
    if (reason) this.reasons[reason] = (this.reasons[reason] ?? 0) + 1
    this.#countAtEndpoint(raw.endpoint ?? 'events', outcome)
    bump(this.seconds, Math.floor(at / SECOND), outcome === 'accepted' ? 'accepted' : 'refused')
    if (outcome === 'accepted') this.#countMinute(raw, at)
    const shown = {
      n: this.n,
      time: new Date(at).toISOString(),
      event: String(raw.event).slice(0, 200),
      player: raw.player ?? null,
      country: raw.country ?? null,
      platform: raw.platform ?? null,
      value: raw.value ?? null,
      outcome,
      reason,
      endpoint: raw.endpoint ?? 'events',
    }
    this.events = [shown, ...this.events].slice(0, EVENTS_MAX)
    this.pending.unshift(shown)
    return result
  }

  #countAtEndpoint(endpoint, outcome) {
    const counts = this.endpoints.get(endpoint) ?? {
      endpoint,
      ...Object.fromEntries(['received', ...OUTCOMES].map((name) => [name, 0])),
    }
    counts.received += 1
    counts[outcome] += 1
    this.endpoints.set(endpoint, counts)
  }

  #countMinute(raw, at) {
    const minute = Math.floor(at / MINUTE)
    const slot = this.minutes.get(minute) ?? { events: 0, byEvent: {}, players: {} }
    slot.events += 1
    slot.byEvent[raw.event] = (slot.byEvent[raw.event] ?? 0) + 1
    if (raw.player && raw.country) (slot.players[raw.country] ??= new Set()).add(raw.player)
    this.minutes.set(minute, slot)
    if (raw.player && !raw.result && this.online() === 0) this.onlineByMinute.set(minute, 1)
  }

  online() {
    const minute = Math.floor(Date.now() / MINUTE)
    return this.onlineByMinute.get(minute) ?? this.onlineByMinute.get(minute - 1) ?? 0
  }

  asOf() {
    return { time: new Date().toISOString(), position: `0/${this.position}` }
  }

  snapshots() {
    return [
      { sub: 'online', online: this.online(), minutes: this.#onlineMinutes() },
      { sub: 'events', events: this.events },
      { sub: 'load', second: this.#seconds(120), ...this.#load() },
      { sub: 'query0', ...this.#byMinute() },
      { sub: 'query1', ...this.#all('event', this.#sum((slot) => Object.entries(slot.byEvent))) },
      { sub: 'query2', ...this.#all('country', this.#players()) },
    ].map((message) => ({ ...message, as_of: this.asOf() }))
  }

  /** Returns the changes since the last call. */
  changes() {
    const added = this.pending.slice(0, ADDED_MAX)
    const skipped = this.pending.length - added.length
    this.pending = []
    const minute = Math.floor(Date.now() / MINUTE)
    const points = [{ key: {}, time: iso(minute), value: this.minutes.get(minute)?.events ?? 0 }]
    const messages = [
      { sub: 'online', online: this.online() },
      { sub: 'load', second: this.#seconds(3), ...this.#load() },
    ]
    if (added.length > 0) messages.push({ sub: 'events', added, skipped }, { sub: 'query0', points })
    return messages.map((message) => ({ ...message, as_of: this.asOf() }))
  }

  /** Rankings change slowly and are sent less often. */
  rankings() {
    const [, , , , events, countries] = this.snapshots()
    return [events, countries]
  }

  #load() {
    const endpoints = [...this.endpoints.values()]
    const [samples, other_events] = this.totals.received === 0 ? [0, 0] : [Math.round(this.totals.accepted / 3), 1_284]
    return { totals: this.totals, samples, other_events, since: this.since, reasons: this.reasons, endpoints }
  }

  #seconds(length) {
    const from = Math.floor(Date.now() / SECOND) - length + 1
    const of = (field) => Array.from({ length }, (_, i) => this.seconds.get(from + i)?.[field] ?? 0)
    const samples = of('accepted').map((accepted) => (accepted === 0 ? 0 : SAMPLES_PER_SECOND))
    return { from: new Date(from * SECOND).toISOString(), accepted: of('accepted'), refused: of('refused'), samples }
  }

  #hour() {
    const last = Math.floor(Date.now() / MINUTE)
    return Array.from({ length: 60 }, (_, i) => last - 59 + i)
  }

  #onlineMinutes() {
    return this.#hour().map((minute) => ({ time: iso(minute), players: this.onlineByMinute.get(minute) ?? 0 }))
  }

  #byMinute() {
    const values = this.#hour().map((minute) => this.minutes.get(minute)?.events ?? 0)
    const total = values.reduce((sum, value) => sum + value, 0)
    return { step: 'minute', tz: 'UTC', times: this.#hour().map(iso), series: [{ key: {}, values, total }] }
  }

  #sum(entries) {
    const sums = new Map()
    for (const minute of this.#hour()) {
      const slot = this.minutes.get(minute)
      for (const [name, n] of slot ? entries(slot) : []) sums.set(name, (sums.get(name) ?? 0) + n)
    }
    return sums
  }

  #players() {
    const sets = new Map()
    for (const minute of this.#hour()) {
      for (const [country, players] of Object.entries(this.minutes.get(minute)?.players ?? {})) {
        sets.set(country, (sets.get(country) ?? new Set()).union?.(players) ?? union(sets.get(country), players))
      }
    }
    return new Map([...sets].map(([country, players]) => [country, players.size]))
  }

  #all(dimension, sums, top = 8) {
    const sorted = [...sums].sort((a, b) => b[1] - a[1])
    const rest = sorted.slice(top).reduce((sum, [, n]) => sum + n, 0)
    const rows = rest > 0 ? [...sorted.slice(0, top), ['(other)', rest]] : sorted
    const series = rows.map(([name, total]) => ({ key: { [dimension]: name }, values: [total], total }))
    return { step: 'all', tz: 'UTC', times: [iso(this.#hour()[0])], series }
  }
}

function union(before = new Set(), more) {
  return new Set([...before, ...more])
}

function generateEvent() {
  const player = NAMES[Math.floor(Math.random() * NAMES.length)] + Math.floor(Math.random() * 40)
  const raw = {
    event: EVENTS(),
    player,
    country: homeOf(player),
    platform: PLATFORMS(),
    value: Math.random() < 0.4 ? Math.ceil(Math.random() * 30) : null,
    endpoint: Math.random() < 0.85 ? 'events' : 'playtomic',
    result: { outcome: 'accepted', reason: null },
  }
  return Math.random() < 0.04 ? spoil(raw) : raw
}

const homes = new Map()
function homeOf(player) {
  if (!homes.has(player)) homes.set(player, COUNTRIES())
  return homes.get(player)
}

function spoil(raw) {
  const [outcome, reason] = REFUSALS().split(' ')
  const event = reason === 'event_name_too_long' ? 'score_'.repeat(40) : raw.event
  return { ...raw, event, result: { outcome, reason: reason || null } }
}

/** The admission rules that are likely to be tried by hand. */
function admit(raw) {
  const invalid = (reason) => ({ outcome: 'invalid', reason })
  if (typeof raw.event !== 'string' || raw.event === '') return invalid('event_missing')
  if (Buffer.byteLength(raw.event) > 200) return invalid('event_name_too_long')
  if (Object.keys(raw).some((field) => !FIELDS.includes(field))) return invalid('unknown_field')
  return { outcome: 'accepted', reason: null }
}

function iso(minute) {
  return new Date(minute * MINUTE).toISOString()
}

function bump(map, at, field) {
  const slot = map.get(at) ?? { accepted: 0, refused: 0 }
  slot[field] += 1
  map.set(at, slot)
}

function poisson(mean) {
  let n = 0
  for (let p = Math.random(); p > Math.exp(-mean); p *= Math.random()) n += 1
  return n
}

/** Returns a function that draws keys at random by their weights. */
function weighted(weights) {
  const entries = Object.entries(weights)
  const sum = entries.reduce((total, [, weight]) => total + weight, 0)
  return () => {
    let left = Math.random() * sum
    return (entries.find(([, weight]) => (left -= weight) < 0) ?? entries[0])[0]
  }
}
