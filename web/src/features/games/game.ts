/** Games as the server returns them to the owner, and their form. */

export interface GameRow {
  id: string
  name: string
  tz: string
  public_key: string
  /** RFC 3339; `null` for a game that is not archived. */
  archived_at: string | null
}

export interface GameDraft {
  name: string
  id: string
  tz: string
}

/** Returns an id for a name: `Word Game 2!` → `word-game-2`. */
export function idFor(name: string): string {
  const ascii = name.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()
  return ascii.replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '').slice(0, 40)
}

/** The time zones that the browser knows; `UTC` first, which it may omit. */
export function timeZones(): string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone').filter((zone) => zone !== 'UTC')]
}
