/** The variables of the mock game: definitions, history and evaluation. */
import { ProblemError } from './problem.mjs'

const KEY = /^[A-Za-z0-9._-]{1,100}$/

const FIRST = {
  hue: { value: 225, description: 'The colour of the sky', schema: { type: 'number', minimum: 0, maximum: 360 } },
  speed: {
    value: 1.5,
    description: 'How fast the otter runs',
    conditions: [
      { name: 'fast', value: 2, country: ['FR'], platform: ['web'], percent: { to: 25 } },
      { name: 'tester', value: 3, segment: ['testers'] },
    ],
  },
  welcome: {
    value: 'Happy holidays!',
    default: 'Hello!',
    starts_at: '2026-12-20T00:00:00.000Z',
    ends_at: '2027-01-02T00:00:00.000Z',
  },
  letters: { value: 'ABCDEFGHIJKLMNOPQRSTUVWXYZ' },
  shop: { value: { open: true, offers: [{ id: 'hat', price: 30 }, { id: 'kite', price: 45 }] } },
}

export class Vars {
  version = 0
  vars = {}
  changes = []
  /** Called after every change. */
  changed = () => undefined

  constructor(empty) {
    if (empty) return
    this.write({ ...FIRST, speed: { value: 1 } }, 'server')
    this.write({ speed: FIRST.speed }, 'person')
  }

  write(definitions, by = 'person', rolledBackTo) {
    const changed = Object.entries(definitions).filter(([name, after]) => text(this.vars[name]) !== text(after))
    if (changed.length === 0) return { version: this.version }
    this.version += 1
    const entries = changed.map(([name, after]) => [name, { before: this.vars[name] ?? null, after: after ?? null }])
    const change = { version: this.version, at: new Date().toISOString(), by, changed: Object.fromEntries(entries) }
    this.changes.unshift(rolledBackTo === undefined ? change : { ...change, rolled_back_to: rolledBackTo })
    for (const [name, after] of changed) {
      if (after) this.vars[name] = after
      else delete this.vars[name]
    }
    this.vars = Object.fromEntries(Object.entries(this.vars).sort(([a], [b]) => (a < b ? -1 : 1)))
    this.changed()
    return { version: this.version }
  }

  put(name, { expected_version, ...definition }) {
    this.#expect(expected_version)
    this.#check(name, definition)
    return { ...this.write({ [name]: definition }), name }
  }

  putMany({ expected_version, vars }) {
    this.#expect(expected_version)
    return this.write(vars)
  }

  rollBack({ version, expected_version }) {
    this.#expect(expected_version)
    const then = { ...this.vars }
    for (const change of this.changes.filter((change) => change.version > version)) {
      for (const [name, { before }] of Object.entries(change.changed)) then[name] = before
    }
    return this.write(then, 'person', version)
  }

  /** Simplified bucketing: a player whose id contains an `a` is in every percentage. */
  valuesOf(viewer) {
    const listed = (list, own) => !list?.length || list.some((it) => own.split(',').includes(it))
    const has = (condition) =>
      ['country', 'platform', 'version', 'segment'].every((name) => listed(condition[name], viewer[name] ?? '')) &&
      (!condition.percent || (viewer.player ?? '').includes('a'))
    const now = new Date().toISOString()
    const isOn = ({ starts_at, ends_at }) => (!starts_at || starts_at <= now) && (!ends_at || now < ends_at)
    const value = (it) => (isOn(it) ? (it.conditions?.find(has)?.value ?? it.value) : (it.default ?? null))
    return Object.fromEntries(Object.entries(this.vars).map(([name, it]) => [name, value(it)]))
  }

  #expect(version) {
    if (version === undefined || version === this.version) return
    throw new ProblemError(409, `the current version is ${this.version}, not ${version}`, 'expected_version')
  }

  #check(name, { value, schema, conditions = [] }) {
    if (!KEY.test(name)) throw new ProblemError(400, 'the name must have 1 to 100 letters, digits, `.`, `_` or `-`', 'name')
    const values = [['value', value], ...conditions.map((it, i) => [`conditions[${i}].value`, it.value])]
    for (const [field, it] of values) {
      if (schema?.type === 'number' && typeof it !== 'number') throw new ProblemError(400, 'the value must be a number', field)
      if (schema?.maximum < it) throw new ProblemError(400, `the value must be at most ${schema.maximum}`, field)
    }
  }
}

function text(definition) {
  return JSON.stringify(definition ?? null)
}
