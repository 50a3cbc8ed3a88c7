/** The leaderboards of the mock game. Each is a list of runs that is ranked on every request. */
import { ProblemError } from './problem.mjs'

const DAY_MS = 86_400_000
const LENGTHS = { day: 1, week: 7, month: 30, '24h': 1, '7d': 7, '30d': 30 }
const DEFAULTS = {
  title: '',
  order: 'desc',
  keep: 'best',
  windows: ['day', 'week', 'month', 'season', 'all', '24h', '7d', '30d'],
  min: null,
  max: null,
  decimals: 0,
  mode: 'session',
  competitive: false,
  checks: {},
  filters: [],
  private: false,
}
const NAMES = ['Brave Otter', 'Quick Fox', 'Calm Whale', 'Bright Owl', 'Kind Bear', 'Swift Hare', 'Merry Seal']

export class Boards {
  boards = new Map()
  bans = new Map()
  quarantineId = 0
  changed = () => undefined

  constructor(empty) {
    if (empty) return
    this.put('stars', { title: 'Stars', filters: ['car'], checks: { min_play_s: 10, points_per_s_max: 20 } })
    this.put('fastest-lap', { title: 'Fastest lap', order: 'asc', decimals: 2, windows: ['day', 'all'] })
    for (let i = 0; i < 63; i++) this.append('stars', run(i))
    for (let i = 0; i < 5; i++) this.append('fastest-lap', { ...run(i), score: 61.25 + i * 1.37 })
    const detail = 'points per second must be at most 20, not 7999.9'
    const evidence = { failed: [{ check: 'points_per_s_max', detail }], session: 's1', played_s: 12.5 }
    this.addToQuarantine('stars', { ...run(3), player: 'eve', name: 'Eve', score: 99_999 }, evidence)
  }

  put(table, params) {
    const before = this.boards.get(table)
    if (before?.runs.length && params.order && params.order !== before.board.order) {
      throw new ProblemError(409, '`order` cannot change while the board has scores; create another board', 'order')
    }
    if (params.filters?.length > 4) throw new ProblemError(400, '`filters` must have at most 4 fields', 'filters')
    const entry = before ?? { board: { table, ...DEFAULTS, season: 1 }, runs: [], quarantine: [], seasonFrom: 0 }
    entry.board = { ...entry.board, ...params, private: Boolean(params.private ?? entry.board.private) }
    if (typeof params.private === 'string') entry.board.code = params.private
    this.boards.set(table, entry)
    return this.one(table)
  }

  all() {
    return { boards: [...this.boards.keys()].sort().map((table) => this.one(table)) }
  }

  one(table) {
    const { board, runs } = this.#of(table)
    return { ...board, players: new Set(runs.map(({ player }) => player)).size }
  }

  reset(table) {
    const it = this.#of(table)
    it.board.season += 1
    it.seasonFrom = Date.now()
    this.changed(table)
    return { table, season: it.board.season }
  }

  submit(table, run) {
    if (!this.boards.has(table)) this.put(table, {})
    if (this.bans.has(run.player)) throw new ProblemError(403, 'the player is banned')
    const { session, ...score } = run
    const made = { at: new Date().toISOString(), verified: true, name: '', ...score }
    const { min_play_s } = this.#of(table).board.checks
    if (!session || !min_play_s) return this.append(table, made)
    const detail = `play time must be at least ${min_play_s} s, not 0.0 s`
    return this.addToQuarantine(table, made, { failed: [{ check: 'min_play_s', detail }], session, played_s: 0 })
  }

  append(table, run) {
    this.#of(table).runs.push(run)
    this.changed(table)
    return { saved: true }
  }

  addToQuarantine(table, run, evidence) {
    this.#of(table).quarantine.push({ id: String(++this.quarantineId), row: { rank: 0, ...run }, evidence })
    return { saved: false, quarantined: true }
  }

  quarantine(table) {
    return { items: this.#of(table).quarantine }
  }

  decide(table, id, { decision }) {
    const it = this.#of(table)
    const item = it.quarantine.find((item) => item.id === id)
    if (!item) throw new ProblemError(404, 'there is no quarantined score with this id')
    it.quarantine = it.quarantine.filter((item) => item.id !== id)
    if (decision === 'accept') this.append(table, item.row)
    return { id, decision }
  }

  ban(player, reason = '') {
    this.bans.set(player, reason)
    this.boards.forEach((_, table) => this.changed(table))
  }

  lift(player) {
    if (!this.bans.delete(player)) throw new ProblemError(404, 'this player is not banned')
    this.boards.forEach((_, table) => this.changed(table))
  }

  page(table, params) {
    const { board } = this.#of(table)
    const window = params.window ?? 'all'
    const rows = this.#ranked(table, window, params)
    const perPage = Number(params.per_page ?? 20)
    const found = rows.findIndex(({ player }) => player === params.around)
    if (params.around && found < 0) return { table, window, page: 1, per_page: perPage, total: rows.length, rows: [] }
    const first = params.around ? Math.max(0, found - Math.floor(perPage / 2)) : (Number(params.page ?? 1) - 1) * perPage
    const result = { table, window, page: Math.floor(first / perPage) + 1, per_page: perPage, total: rows.length }
    return { ...result, ...(window === 'season' ? { season: board.season } : {}), rows: rows.slice(first, first + perPage) }
  }

  #ranked(table, window, params) {
    const { board, runs, seasonFrom } = this.#of(table)
    const from = window === 'season' ? seasonFrom : LENGTHS[window] ? Date.now() - LENGTHS[window] * DAY_MS : 0
    const fits = (run) =>
      Date.parse(run.at) >= from &&
      !this.bans.has(run.player) &&
      board.filters.every((field) => !params[`filter.${field}`] || run.fields?.[field] === params[`filter.${field}`])
    const sign = board.order === 'asc' ? -1 : 1
    const best = new Map()
    for (const run of runs.filter(fits)) {
      const before = best.get(run.player)
      if (!before || sign * (run.score - before.score) > 0) best.set(run.player, run)
    }
    const ranked = [...best.values()]
      .sort((a, b) => sign * (b.score - a.score))
      .map((run, i) => ({ rank: i + 1, ...run }))
    return params.by === 'newest' ? ranked.sort((a, b) => (a.at < b.at ? 1 : -1)) : ranked
  }

  #of(table) {
    const found = this.boards.get(table)
    if (!found) throw new ProblemError(404, `there is no board \`${table}\``)
    return found
  }
}

function run(i) {
  const name = `${NAMES[i % NAMES.length]}${i >= NAMES.length ? ` ${Math.floor(i / NAMES.length) + 1}` : ''}`
  return {
    player: `p-${1000 + i * 37}`,
    name,
    score: 2400 - i * 31,
    subscore: 90 - i,
    fields: { car: ['red', 'blue', 'green'][i % 3] },
    at: new Date(Date.now() - i * i * 260_000).toISOString(),
    verified: i % 9 !== 4,
  }
}
