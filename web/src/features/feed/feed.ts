/** The feed of a player as returned by the server, and its sentences. */

export interface FeedItem {
  id: string
  kind: string
  at: string
  players: { player: string; name: string }[]
  /** All players of the item, of which at most 1,000 are listed. */
  players_count: number
  text?: string
  achievement?: string
  level?: string
  table?: string
  score?: string
  props?: Record<string, unknown>
}

export interface FeedPage {
  items: FeedItem[]
  /** Where the next page starts; absent on the last one. */
  next?: string
}

/** Returns what the players of an item did: `scored 20 on stars`. */
export function describeItem({ kind, text, achievement, table, score, level }: FeedItem): string {
  if (kind === 'achievement') return `earned the achievement ${text || achievement || ''}`.trim()
  if (kind === 'score') return `scored ${score ?? ''} on ${table ?? ''}`
  if (kind === 'level') return `published the level ${text || level || ''}`.trim()
  return text ?? kind
}

/** Returns true for a post of the game, whose text is a sentence of its own. */
export function isSentence({ kind }: FeedItem): boolean {
  return !['achievement', 'score', 'level'].includes(kind)
}

/** Names the players of an item: `Ann`, `Ann and Bo`, `Ann, Bo and 3 others`. */
export function namesOf({ players, players_count }: Pick<FeedItem, 'players' | 'players_count'>): string[] {
  const names = players.slice(0, 2).map(({ name, player }) => name || player)
  const others = players_count - names.length
  return others > 0 ? [...names, `${others} ${others === 1 ? 'other' : 'others'}`] : names
}
