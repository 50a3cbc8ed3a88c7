/** The last queries that were run in this browser, and the text that was being written. */

const RECENT_MAX = 20
const BYTES_MAX = 100_000

interface Stored {
  draft: string
  recent: string[]
}

const PREFIX = 'playmeter.sql.'
const keyOf = (game: string) => PREFIX + game

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

/** Returns the queries that do not contain a text, also not with its quotes doubled as in SQL. */
export function withoutText({ draft, recent }: Stored, text: string): Stored {
  const isFree = (sql: string) => !sql.includes(text) && !sql.includes(text.replaceAll("'", "''"))
  return { draft: isFree(draft) ? draft : '', recent: recent.filter(isFree) }
}

/** Removes the stored queries of all games that contain a text, such as the id of a player who was erased. */
export function removeQueries(text: string): void {
  for (const game of storedGames()) store(game, withoutText(readStored(game), text))
}

/** Removes all stored queries, so that the next person at this browser does not see them. */
export function clearQueries(): void {
  for (const game of storedGames()) localStorage.removeItem(keyOf(game))
}

function storedGames(): string[] {
  try {
    return Object.keys(localStorage).flatMap((key) => (key.startsWith(PREFIX) ? [key.slice(PREFIX.length)] : []))
  } catch {
    return []
  }
}
