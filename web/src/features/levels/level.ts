/** Player levels as the server gives them, and how hard they are. */

export const MODES = {
  popular: 'Popular',
  newest: 'Newest',
  recent: 'Recent votes',
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
  /** The mean of all votes, 1 to 10. */
  rating: number | null
  /** By which levels are ordered: few votes count little. */
  score: number
  starts: number
  wins: number
  retries: number
  quits: number
  flags: number
  thumb?: string | null
  data?: string | null
}

export interface Leaf {
  levels: Level[]
  total: number
  page: number
  per_page: number
}

export interface Flagged {
  id: string
  level: Level
  open_flags: number
  reasons: { player: string; reason: string; at: string }[]
}

export interface Queue {
  items: Flagged[]
  total: number
}

/** Fewer starts than these say nothing. */
const STARTS_MIN = 10

export interface Difficulty {
  /** `Easy`, `Fair`, `Hard`, `Too hard?`, or that too few played it. */
  verdict: string
  /** Of the starts; there may be several retries of each. */
  shares: { name: string; count: number; share: number }[]
}

/** Many starts, few wins and many who leave: hard. */
export function difficultyOf({ starts, wins, retries, quits }: Level): Difficulty {
  const share = (count: number) => (starts > 0 ? count / starts : 0)
  const shares = [
    { name: 'Won', count: wins, share: share(wins) },
    { name: 'Tried again', count: retries, share: share(retries) },
    { name: 'Gave up', count: quits, share: share(quits) },
  ]
  return { verdict: verdict(starts, share(wins), share(quits)), shares }
}

function verdict(starts: number, won: number, left: number): string {
  if (starts < STARTS_MIN) return 'Hardly played'
  if (won < 0.2 && left > 0.4) return 'Too hard?'
  if (won < 0.4) return 'Hard'
  return won < 0.75 ? 'Fair' : 'Easy'
}

/** The maker as others see them. */
export function makerOf({ player_name, player }: Level): string {
  return player_name || player
}
