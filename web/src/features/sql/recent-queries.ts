/** The last queries that were run in this browser, and the text that was being written. */

const RECENT_MAX = 20
const BYTES_MAX = 100_000

interface Stored {
  draft: string
  recent: string[]
}

const keyOf = (game: string) => `playmeter.sql.${game}`

export function readStored(game: string): Stored {
  try {
    const { draft = '', recent = [] } = JSON.parse(localStorage.getItem(keyOf(game)) ?? '{}') as Partial<Stored>
    return { draft, recent }
  } catch {
    return { draft: '', recent: [] }
  }
}

/** Stores the text and the recent queries as far as they fit. */
export function store(game: string, { draft, recent }: Stored): void {
  try {
    const text = JSON.stringify({ draft, recent })
    if (text.length <= BYTES_MAX) localStorage.setItem(keyOf(game), text)
  } catch {
    // Storage may be unavailable in private windows: the text then lasts until the page is closed.
  }
}

/** Returns the recent queries after a query was run: it comes first and once. */
export function withQuery(recent: readonly string[], sql: string): string[] {
  return [sql, ...recent.filter((other) => other !== sql)].slice(0, RECENT_MAX)
}
