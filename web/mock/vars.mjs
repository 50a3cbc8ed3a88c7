/** The variables of the invented game: definitions, history, and what somebody gets. */
import { Refused } from './refused.mjs'

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

  write(wanted, by = 'person', back) {
    const changed = Object.entries(wanted).filter(([name, after]) => text(this.vars[name]) !== text(after))
    if (changed.length === 0) return { version: this.version }
    this.version += 1
    const entries = changed.map(([name, after]) => [name, { before: this.vars[name] ?? null, after: after ?? null }])
    const change = { version: this.version, at: new Date().toISOString(), by, changed: Object.fromEntries(entries) }
    this.changes.unshift(back === undefined ? change : { ...change, rolled_back_to: back })
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

  /** Without the server's order of players: whoever has an `a` in the id is in every share. */
  valuesOf(who) {
    const listed = (list, own) => !list?.length || list.some((it) => own.split(',').includes(it))
    const has = (condition) =>
      ['country', 'platform', 'version', 'segment'].every((name) => listed(condition[name], who[name] ?? '')) &&
      (!condition.percent || (who.player ?? '').includes('a'))
    const now = new Date().toISOString()
    const isOn = ({ starts_at, ends_at }) => (!starts_at || starts_at <= now) && (!ends_at || now < ends_at)
    const value = (it) => (isOn(it) ? (it.conditions?.find(has)?.value ?? it.value) : (it.default ?? null))
    return Object.fromEntries(Object.entries(this.vars).map(([name, it]) => [name, value(it)]))
  }

  #expect(version) {
    if (version === undefined || version === this.version) return
    throw new Refused(409, `the version is ${this.version}, not ${version}`, 'expected_version')
  }

  #check(name, { value, schema, conditions = [] }) {
    if (!KEY.test(name)) throw new Refused(400, 'a name has 1 to 100 letters, digits, `.`, `_` or `-`', 'name')
    const values = [['value', value], ...conditions.map((it, i) => [`conditions[${i}].value`, it.value])]
    for (const [field, it] of values) {
      if (schema?.type === 'number' && typeof it !== 'number') throw new Refused(400, 'it is not a number', field)
      if (schema?.maximum < it) throw new Refused(400, `it is greater than ${schema.maximum}`, field)
    }
  }
}

function text(definition) {
  return JSON.stringify(definition ?? null)
}
