/** What the game has to ask about: dimensions, event names with their volume, and values of properties. */
import type { Client } from '../client'
import { OTHER } from '../stream/query-results'
import type { ApiAnswer, GameSchema } from './plan'

export interface EventVolume {
  name: string
  /** Events in the last 30 days. */
  count: number
}

/** Properties that every event can have. */
export const PROPERTIES = ['country', 'platform', 'version', 'level', 'source', 'event', 'player', 'session', 'value'] as const
/** Dimensions of the server that are no properties of events. */
const NO_PROPERTIES = new Set(['vars', 'measure'])

const EVENTS_MAX = 500
const VALUES_MAX = 50
const SEEN_MAX = 200

export class Schema {
  /** The event names, most frequent first. */
  events = $state.raw<EventVolume[]>([])
  /** False until the schema is loaded: questions wait for it. */
  isLoaded = $state(false)
  error = $state.raw<unknown>()
  #dimensions = $state.raw<{ name: string; declared: boolean }[]>([])
  readonly #client: Client
  readonly #values = new Map<string, Promise<string[]>>()
  /** Properties `props.NAME` that were used in this browser, by event. */
  #seen = $state.raw<Record<string, string[]>>({})

  constructor(client: Client) {
    this.#client = client
    this.#seen = readSeen(this.#storageKey)
    void this.load()
  }

  async load(): Promise<void> {
    this.error = undefined
    try {
      const volumes = { metric: 'events', by: ['event'], last: '30d', step: 'all', top: EVENTS_MAX }
      const [dimensions, events] = await Promise.all([
        this.#client.get<{ dimensions: { name: string; declared: boolean }[] }>('/v1/dimensions'),
        this.#client.ask<ApiAnswer>('/v1/query', volumes),
      ])
      this.#dimensions = dimensions.body.dimensions
      this.events = events.body.series
        .map(({ key, total }) => ({ name: key['event'] ?? '', count: total ?? 0 }))
        .filter(({ name, count }) => name !== OTHER && count > 0)
      this.isLoaded = true
    } catch (error) {
      this.error = error
    }
  }

  /** The part of the schema that plans of questions need. */
  readonly game: GameSchema = $derived({
    dimensions: new Set(this.#dimensions.map(({ name }) => name)),
    declared: new Set(this.#dimensions.filter(({ declared }) => declared).map(({ name }) => name)),
    events: new Map(this.events.map(({ name, count }) => [name, count])),
  })

  /** The properties to offer for an event, its own first. */
  properties(event?: string): string[] {
    const own = (event && this.#seen[event]) || []
    const others = Object.entries(this.#seen).flatMap(([name, seen]) => (name === event ? [] : seen))
    const declared = this.#dimensions.map(({ name }) => name).filter((name) => !NO_PROPERTIES.has(name))
    return [...new Set([...own, ...declared, ...PROPERTIES, ...others])]
  }

  /** Remembers a property that the user named, to offer it again. */
  remember(property: string, event = ''): void {
    const seen = this.#seen[event] ?? []
    if (!property.startsWith('props.') || seen.includes(property)) return
    this.#seen = { ...this.#seen, [event]: [property, ...seen].slice(0, SEEN_MAX) }
    try {
      localStorage.setItem(this.#storageKey, JSON.stringify(this.#seen))
    } catch {
      // Storage may be unavailable in private windows: the property is then offered until the page is closed.
    }
  }

  /** Returns the most frequent values of a property in the last 30 days. Empty if they cannot be read. */
  values(property: string, event?: string): Promise<string[]> {
    const name = `${property}\n${event ?? ''}`
    let values = this.#values.get(name)
    if (!values) this.#values.set(name, (values = this.#readValues(property, event)))
    return values
  }

  async #readValues(property: string, event: string | undefined): Promise<string[]> {
    if (property === 'event') return this.events.map(({ name }) => name)
    if (['player', 'session', 'value'].includes(property)) return []
    const isDimension = this.game.dimensions.has(property)
    const range = { by: [property], last: '30d', step: 'all', top: VALUES_MAX }
    const ask = isDimension
      ? this.#client.ask<ApiAnswer>('/v1/query', { metric: 'players', ...range })
      : this.#client.ask<ApiAnswer>('/v1/explore', { ...(event ? { event } : {}), ...range })
    const { body } = await ask.catch(() => ({ body: undefined }))
    const values = (body?.series ?? []).map(({ key }) => key[property] ?? '')
    return values.filter((value) => value !== '' && value !== OTHER)
  }

  get #storageKey(): string {
    return `playmeter.properties.${this.#client.game.id}`
  }
}

const schemas = new WeakMap<Client, Schema>()

/** Returns the schema of the client's game; pages share it. */
export function schemaOf(client: Client): Schema {
  let schema = schemas.get(client)
  if (!schema) schemas.set(client, (schema = new Schema(client)))
  return schema
}

function readSeen(storageKey: string): Record<string, string[]> {
  try {
    return JSON.parse(localStorage.getItem(storageKey) ?? '{}') as Record<string, string[]>
  } catch {
    return {}
  }
}
