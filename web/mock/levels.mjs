/** The player levels of the mock game. */
import { ProblemError } from './problem.mjs'

const SAMPLES = [
  ['The cave', 'bo', 'Bo', 412, 290, 180, 31, 9.1, 48],
  ['Maze of mirrors', 'ann', 'Ann', 355, 31, 640, 190, 6.4, 22],
  ['Otter creek', 'p-1037', 'Quick Fox', 208, 121, 96, 40, 8.2, 17],
  ['Nobody gets out', 'eve', 'Eve', 97, 4, 210, 71, 3.1, 12],
  ['First steps', 'ann', 'Ann', 510, 471, 22, 9, 7.7, 30],
  ['Untitled', 'p-1111', '', 3, 1, 0, 0, null, 0],
]

/** Returns a picture of 12 by 9 pixels, hills in two colours, as an uncompressed GIF. */
function picture(seed) {
  const rows = Array.from({ length: 9 }, (_, y) =>
    Array.from({ length: 12 }, (_, x) => (y > 4 + 2.5 * Math.sin(seed + x / 2) ? 1 : y > 6 ? 2 : 0)),
  )
  const colours = [[170 - seed * 12, 215, 235], [90, 160 - seed * 9, 120 + seed * 14], [60, 90, 70], [0, 0, 0]]
  const codes = rows.flat().flatMap((pixel) => [4, pixel])
  const bits = [...codes, 5].flatMap((code) => [code & 1, (code >> 1) & 1, (code >> 2) & 1])
  const bytes = Array.from({ length: Math.ceil(bits.length / 8) }, (_, i) =>
    bits.slice(i * 8, i * 8 + 8).reduce((byte, bit, at) => byte | (bit << at), 0),
  )
  const head = [...Buffer.from('GIF89a'), 12, 0, 9, 0, 0xf1, 0, 0, ...colours.flat()]
  const image = [0x2c, 0, 0, 0, 0, 12, 0, 9, 0, 0, 2, bytes.length, ...bytes, 0, 0x3b]
  return `data:image/gif;base64,${Buffer.from([...head, ...image]).toString('base64')}`
}

export class Levels {
  levels = []
  flagged = []

  constructor(empty) {
    if (empty) return
    this.levels = SAMPLES.map(([name, player, player_name, starts, wins, retries, quits, rating, votes], i) => ({
      id: `level${i}x7k2m`,
      name,
      player,
      player_name,
      state: 'published',
      fields: { size: i % 2 ? 'big' : 'small' },
      source: '',
      created_at: new Date(Date.now() - i * 9_400_000).toISOString(),
      votes,
      rating,
      score: (55 + (rating ?? 0) * votes) / (10 + votes),
      starts,
      wins,
      retries,
      quits,
      flags: i === 3 ? 2 : 0,
      ...(i < 4 ? { thumb: picture(i) } : {}),
      data: '##########\n#..#.....#\n#....##..#\n#.##...*.#\n##########\n',
    }))
    const at = new Date(Date.now() - 3_600_000).toISOString()
    const reasons = [
      { player: 'ann', reason: 'it cannot be won', at },
      { player: 'p-1037', reason: 'rude words in it', at },
    ]
    this.flagged = [{ id: this.levels[3].id, open_flags: 2, reasons }]
  }

  save(params) {
    const counts = { votes: 0, rating: null, score: 5.5, starts: 0, wins: 0, retries: 0, quits: 0, flags: 0 }
    const made = { id: `made${this.levels.length}`, created_at: new Date().toISOString(), state: 'published' }
    this.levels.unshift({ ...made, player_name: '', fields: {}, source: '', ...counts, ...params })
    return { ...this.levels[0], duplicate: false }
  }

  rate(id, { rating }) {
    const level = this.one(id)
    const sum = (level.rating ?? 0) * level.votes + rating
    level.votes += 1
    level.rating = sum / level.votes
    level.score = (55 + sum) / (10 + level.votes)
    return { id, rating: level.rating, votes: level.votes, changed: false }
  }

  flag(id, { player, reason = '' }) {
    const level = this.one(id)
    level.flags += 1
    let it = this.flagged.find((flagged) => flagged.id === id)
    if (!it) this.flagged.push((it = { id, open_flags: 0, reasons: [] }))
    it.open_flags += 1
    it.reasons.unshift({ player, reason, at: new Date().toISOString() })
    return { id, flags: level.flags, already: false }
  }

  /** Applies a `$level` event to the counters. */
  event({ event, level: id, props }) {
    const counter = { start: 'starts', win: 'wins', retry: 'retries', quit: 'quits' }[props?.state]
    const level = this.levels.find((level) => level.id === id)
    if (event === '$level' && level && counter) level[counter] += 1
  }

  list(params) {
    const filters = Object.entries(params).filter(([name]) => name.startsWith('filter.'))
    const fits = (level) =>
      (!params.player || level.player === params.player) &&
      (params.state === 'all' || level.state === 'published') &&
      filters.every(([name, value]) => level.fields[name.slice(7)] === value)
    const by = params.mode === 'newest' ? (a, b) => (a.created_at < b.created_at ? 1 : -1) : (a, b) => b.score - a.score
    const all = this.levels.filter(fits).sort(by)
    const [page, perPage] = [Number(params.page ?? 1), Number(params.per_page ?? 20)]
    const levels = all.slice((page - 1) * perPage, page * perPage).map(({ data: _, ...level }) => level)
    return { levels, total: all.length, page, per_page: perPage }
  }

  one(id) {
    const level = this.levels.find((level) => level.id === id)
    if (!level) throw new ProblemError(404, 'there is no level with this id', 'id')
    return level
  }

  set(id, { state }) {
    const level = this.one(id)
    if (level.state === 'removed') throw new ProblemError(409, 'the level was removed')
    level.state = state
    if (state === 'removed') [level.data, level.thumb] = [null, null]
    return level
  }

  queue() {
    const items = this.flagged.map((it) => {
      const { data: _, ...level } = this.one(it.id)
      return { ...it, level }
    })
    return { items, total: items.length, page: 1, per_page: 20 }
  }

  decide(id, { decision }) {
    this.flagged = this.flagged.filter((it) => it.id !== id)
    return decision === 'remove' ? this.set(id, { state: 'removed' }) : this.one(id)
  }
}
