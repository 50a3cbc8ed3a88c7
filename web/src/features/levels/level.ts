/** Player levels as returned by the server, and their difficulty. */

export const MODES = {
  popular: 'Popular',
  newest: 'Newest',
  recent: 'Recently rated',
  today: 'Today',
  yesterday: 'Yesterday',
  '7d': '7 days',
  '30d': '30 days',
  '90d': '90 days',
} as const
export type Mode = keyof typeof MODES

export interface Level {
  id: string
  name: string
  player: string
  player_name: string
  state: 'draft' | 'published' | 'removed'
  fields?: Record<string, string>
  source?: string
  /** RFC 3339. */
  created_at: string
  votes: number
  /** The average of all votes, 1 to 10. */
  rating: number | null
  /** The weighted rating that lists are sorted by: with few votes it stays close to the middle. */
  score: number
  starts: number
  wins: number
  retries: number
  quits: number
  flags: number
  thumb?: string | null
  data?: string | null
}

export interface LevelPage {
  levels: Level[]
  total: number
  page: number
  per_page: number
}

export interface FlaggedLevel {
  id: string
  level: Level
  open_flags: number
  reasons: { player: string; reason: string; at: string }[]
}

export interface ModerationPage {
  items: FlaggedLevel[]
  total: number
}

/** A level with fewer starts has no difficulty. */
const STARTS_MIN = 10

export interface Difficulty {
  /** `Easy`, `Medium`, `Hard`, `Too hard?`, or `Not enough plays`. */
  verdict: string
  /** Shares of the starts. The share of retries may exceed 1. */
  shares: { name: string; count: number; share: number }[]
}

/** Rates a level by the share of starts that were won and quit. */
export function difficultyOf({ starts, wins, retries, quits }: Level): Difficulty {
  const share = (count: number) => (starts > 0 ? count / starts : 0)
  const shares = [
    { name: 'Won', count: wins, share: share(wins) },
    { name: 'Retried', count: retries, share: share(retries) },
    { name: 'Quit', count: quits, share: share(quits) },
  ]
  return { verdict: verdict(starts, share(wins), share(quits)), shares }
}

function verdict(starts: number, winShare: number, quitShare: number): string {
  if (starts < STARTS_MIN) return 'Not enough plays'
  if (winShare < 0.2 && quitShare > 0.4) return 'Too hard?'
  if (winShare < 0.4) return 'Hard'
  return winShare < 0.75 ? 'Medium' : 'Easy'
}

/** Returns the display name of the author. */
export function authorName({ player_name, player }: Level): string {
  return player_name || player
}

const SORTS: Record<string, (level: Level) => number | string> = {
  name: ({ name }) => name.toLowerCase(),
  rating: ({ rating }) => rating ?? 0,
  starts: ({ starts }) => starts,
  wins: ({ starts, wins }) => wins / starts || 0,
  retries: ({ starts, retries }) => retries / starts || 0,
  quits: ({ starts, quits }) => quits / starts || 0,
  created: ({ created_at }) => created_at,
}

/** The orders of the table, as they are in the URL. */
export const SORT_NAMES = Object.keys(SORTS).flatMap((name) => [name, `-${name}`])

/** Returns the levels sorted by a column of the table: its name, with `-` for descending. Any other text keeps the order. */
export function sortedLevels(levels: Level[], sort: string): Level[] {
  const direction = sort.startsWith('-') ? -1 : 1
  const name = sort.replace(/^-/, '')
  const key = Object.hasOwn(SORTS, name) ? SORTS[name] : undefined
  if (!key) return levels
  return [...levels].sort((a, b) => {
    const [one, other] = [key(a), key(b)]
    return direction * (typeof one === 'string' ? one.localeCompare(String(other)) : one - Number(other))
  })
}
