/** The state of the mock game: the parts of live-ops that the client's tests need. */
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto'

export class ProblemError extends Error {
  constructor(status, code, field) {
    super(code)
    this.status = status
    this.problem = { type: `/problems/${code}`, title: code, status, detail: `rejected: ${code}`, field }
  }
}

export class Game {
  /** The accepted events in order, and the number of duplicates. */
  events = []
  duplicates = 0
  vars = {}
  version = 1
  #ids = new Set()
  #receipts = new Map()
  #sessions = new Map()
  #nonces = new Set()
  #responses = new Map()
  #boards = new Map()
  #levels = new Map()
  #grants = new Map()
  #follows = new Map()
  #posts = []

  submitEvents({ events }, batch) {
    const results = []
    let accepted = 0
    let duplicate = 0
    for (const [i, event] of events.entries()) {
      if (this.#ids.has(event.id)) {
        duplicate++
      } else if (event.event === '') {
        results.push({ i, id: event.id, outcome: 'invalid', reason: 'event_name_empty' })
      } else {
        this.#ids.add(event.id)
        this.events.push(event)
        accepted++
      }
    }
    this.duplicates += duplicate
    const receipt = { accepted, duplicate, late: 0, limited: 0, invalid: results.length }
    if (batch) this.#receipts.set(batch, receipt)
    return { ...receipt, position: '0/0', results }
  }

  receipt(batch) {
    const receipt = this.#receipts.get(batch)
    if (!receipt) throw new ProblemError(404, 'not_found', 'batch')
    return receipt
  }

  setVars(vars) {
    this.vars = vars
    this.version++
  }

  session({ player, name }) {
    const session = randomUUID()
    const key = randomBytes(32)
    this.#sessions.set(session, { player, key })
    const expires_at = new Date(Date.now() + 900_000).toISOString()
    return { session, player, name, key: key.toString('base64url'), expires_at }
  }

  /** Drops all sessions, like a restarted server. */
  dropSessions() {
    this.#sessions.clear()
  }

  /** Returns the player whose session signed the request. */
  signedBy(request, body) {
    const [version, session, at, nonce, proof] = (request.headers['x-playmeter-signature'] ?? '').split(';')
    const known = this.#sessions.get(session)
    const path = new URL(request.url, 'http://mock').pathname
    const hash = createHash('sha256').update(body).digest('hex')
    const message = [at, nonce, request.method, path, hash].join('\n')
    const right = known && createHmac('sha256', known.key).update(message).digest('hex') === proof
    const timely = Math.abs(Date.now() / 1000 - at) <= 300 && !this.#nonces.has(nonce)
    if (version !== 'v1' || !right || !timely) throw new ProblemError(401, 'signature')
    this.#nonces.add(nonce)
    return known.player
  }

  /** Repeats the response to a request with the same idempotency key. */
  once(key, body, decide) {
    const before = this.#responses.get(key)
    if (before && before.body !== body) throw new ProblemError(409, 'idempotency')
    const response = before?.response ?? decide()
    if (key) this.#responses.set(key, { body, response })
    return response
  }

  submit(table, { player, name, score, fields, source }) {
    if (typeof score !== 'number') throw new ProblemError(400, 'invalid_field', 'score')
    const rows = this.#boards.get(table) ?? []
    const before = rows.find((row) => row.player === player)
    const saved = !before || score > before.score
    const row = { player, name, score, fields, source, at: new Date().toISOString(), verified: true }
    const kept = saved ? [...rows.filter((other) => other !== before), row] : rows
    this.#boards.set(
      table,
      kept.sort((a, b) => b.score - a.score),
    )
    const rank = kept.findIndex((other) => other.player === player) + 1
    const best = kept[rank - 1].score
    return {
      saved,
      best,
      rank,
      ranks: { all: rank, day: rank },
      improved_by: saved && before ? score - before.score : 0,
    }
  }

  page(table, query, player) {
    const friends = query.get('friends')
    const chosen = friends?.startsWith('follows:') ? [...this.follows(friends.slice(8))] : friends?.split(',')
    const rows = (this.#boards.get(table) ?? [])
      .map((row, i) => ({ rank: i + 1, ...row, ...(row.player === player && { submitted: true }) }))
      .filter((row) => !chosen || chosen.includes(row.player))
      .filter((row) => !query.get('player') || row.player === query.get('player'))
    const per_page = Number(query.get('per_page') ?? 20)
    return {
      table,
      window: query.get('window') ?? 'all',
      page: 1,
      per_page,
      total: rows.length,
      rows: rows.slice(0, per_page),
    }
  }

  saveLevel(level) {
    const same = [...this.#levels.values()].find(
      (one) => one.player === level.player && one.name === level.name && one.data === level.data,
    )
    if (same) return { id: same.id, duplicate: true }
    const id = randomUUID()
    this.#levels.set(id, {
      id,
      state: 'published',
      votes: 0,
      rating: 0,
      flags: 0,
      ratings: new Map(),
      ...level,
    })
    return { id, duplicate: false }
  }

  level(id, withData = true) {
    const level = this.#levels.get(id)
    if (!level) throw new ProblemError(404, 'not_found')
    const { ratings, data, ...rest } = level
    const sum = [...ratings.values()].reduce((a, b) => a + b, 0)
    return {
      ...rest,
      votes: ratings.size,
      rating: ratings.size && sum / ratings.size,
      ...(withData && { data }),
    }
  }

  levels(query) {
    const levels = [...this.#levels.keys()].map((id) => this.level(id, query.get('data') === '1'))
    return { levels, total: levels.length, page: 1, per_page: 20 }
  }

  rate(id, { player, rating }) {
    const level = this.#levels.get(id)
    const changed = level.ratings.has(player)
    level.ratings.set(player, rating)
    return { ...this.level(id), changed }
  }

  flag(id) {
    this.#levels.get(id).flags++
    return {}
  }

  grant(key, { player }) {
    const grants = this.#grants.get(player) ?? new Map()
    this.#grants.set(player, grants)
    const granted = !grants.has(key)
    if (granted) grants.set(key, new Date().toISOString())
    return { granted, at: grants.get(key) }
  }

  achievements(player) {
    const grants = [...(this.#grants.get(player) ?? [])]
    return { achievements: grants.map(([key, granted_at]) => ({ key, name: key, points: 1, granted_at })) }
  }

  follows(player) {
    if (!this.#follows.has(player)) this.#follows.set(player, new Set())
    return this.#follows.get(player)
  }

  post({ player, name, text, props }) {
    this.#posts.unshift({
      kind: 'post',
      at: new Date().toISOString(),
      players: [{ player, name }],
      text,
      props,
    })
    return { id: randomUUID() }
  }

  feed(player) {
    const followed = this.follows(player)
    return { items: this.#posts.filter((post) => followed.has(post.players[0].player)) }
  }
}
