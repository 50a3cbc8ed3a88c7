/** Stores of queued events: IndexedDB, which outlives the page, or memory if IndexedDB is unavailable. */

/** An event's id and its JSON. */
export type Row = [id: string, text: string]

export interface Store {
  /** Adds an event and returns the number of oldest events that were dropped for it. A known id changes nothing. */
  add(row: Row): Promise<number>
  /** Returns at most `limit` of the oldest events. */
  read(limit: number): Promise<Row[]>
  remove(ids: string[]): Promise<void>
}

export class MemoryStore implements Store {
  readonly #rows: Map<string, string>
  readonly #max: number

  constructor(max: number, rows?: Iterable<Row>) {
    this.#max = max
    this.#rows = new Map(rows)
  }

  async add([id, text]: Row): Promise<number> {
    this.#rows.set(id, text)
    const excess = [...this.#rows.keys()].slice(0, Math.max(0, this.#rows.size - this.#max))
    await this.remove(excess)
    return excess.length
  }

  async read(limit: number): Promise<Row[]> {
    return [...this.#rows].slice(0, limit)
  }

  async remove(ids: string[]): Promise<void> {
    ids.forEach((id) => this.#rows.delete(id))
  }
}

const TABLE = 'events'

/** Opens a store shared by all tabs of an origin. Ids begin with the time, so the keys are in the order of the events. */
export async function openIndexedStore(name: string, max: number): Promise<Store> {
  const opening = indexedDB.open(name, 1)
  opening.onupgradeneeded = () => opening.result.createObjectStore(TABLE)
  const db = await done(opening)
  const open = () => db.transaction(TABLE, 'readwrite').objectStore(TABLE)
  return {
    async add([id, text]) {
      const table = open()
      table.put(text, id)
      const counting = table.count()
      // Without the explicit commit, the event would be lost if the tab closes now.
      table.transaction.commit()
      const excess = (await done(counting)) - max
      if (excess <= 0) return 0
      const rows = open()
      const oldest = await done(rows.getAllKeys(null, excess))
      oldest.forEach((key) => rows.delete(key))
      return oldest.length
    },

    async read(limit) {
      const table = open()
      const [ids, texts] = await Promise.all([
        done(table.getAllKeys(null, limit)),
        done(table.getAll(null, limit)),
      ])
      return texts.map((text, i) => [ids[i] as string, text])
    },

    async remove(ids) {
      const table = open()
      ids.forEach((id) => table.delete(id))
      // Requests succeed in order.
      await done(table.count())
    },
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error)
  })
}
