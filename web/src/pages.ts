/**
 * The registry of pages. A page is added by one entry here and its component; the menu, the router, the command palette
 * and the paths that the server serves all follow from it. Plain data: the build reads it too.
 */
import type { Game } from './api'
import type { Client } from './client'
import type { IconName } from './components/icons'

/** The props of every page. */
export interface PageProps {
  game: Game
  client: Client
  /** Asks the server whether the session is still valid; called when a stream was rejected. */
  checkSignedIn: () => Promise<boolean>
  /** Reads the session again, after the games changed. */
  reloadSession: () => Promise<void>
}

/** The groups of the menu, in order. */
export const GROUPS = ['Overview', 'Analyze', 'Live-ops', 'Operations', 'Settings'] as const

export interface PageEntry {
  name: string
  group: (typeof GROUPS)[number]
  icon: IconName
  /** The component, relative to `features/` and without its extension. Its code is loaded on the first visit. */
  file: `${string}/${string}Page`
}

/** Every page by its id, which is also its path; `live` is at `/`. The order is the order of the menu. */
export const pages = {
  live: { name: 'Live', group: 'Overview', icon: 'live', file: 'live/LivePage' },

  explore: { name: 'Explore', group: 'Analyze', icon: 'explore', file: 'explore/ExplorePage' },
  funnels: { name: 'Funnels', group: 'Analyze', icon: 'funnels', file: 'funnels/FunnelsPage' },
  retention: { name: 'Retention', group: 'Analyze', icon: 'retention', file: 'retention/RetentionPage' },
  paths: { name: 'Paths', group: 'Analyze', icon: 'paths', file: 'paths/PathsPage' },
  players: { name: 'Players', group: 'Analyze', icon: 'players', file: 'players/PlayersPage' },
  cohorts: { name: 'Cohorts', group: 'Analyze', icon: 'cohorts', file: 'cohorts/CohortsPage' },
  sql: { name: 'SQL', group: 'Analyze', icon: 'sql', file: 'sql/SqlPage' },

  vars: { name: 'Variables', group: 'Live-ops', icon: 'vars', file: 'vars/VarsPage' },
  boards: { name: 'Leaderboards', group: 'Live-ops', icon: 'boards', file: 'boards/BoardsPage' },
  levels: { name: 'Levels', group: 'Live-ops', icon: 'levels', file: 'levels/LevelsPage' },
  achievements: { name: 'Achievements', group: 'Live-ops', icon: 'achievements', file: 'achievements/AchievementsPage' },
  feed: { name: 'Feed', group: 'Live-ops', icon: 'feed', file: 'feed/FeedPage' },
  surveys: { name: 'Surveys', group: 'Live-ops', icon: 'surveys', file: 'surveys/SurveysPage' },

  collectors: { name: 'Collectors', group: 'Operations', icon: 'collectors', file: 'collectors/CollectorsPage' },
  flows: { name: 'Flows', group: 'Operations', icon: 'flows', file: 'flows/FlowsPage' },
  hosts: { name: 'Hosts', group: 'Operations', icon: 'hosts', file: 'hosts/HostsPage' },

  games: { name: 'Games and keys', group: 'Settings', icon: 'games', file: 'games/GamesPage' },
  dimensions: { name: 'Dimensions', group: 'Settings', icon: 'dimensions', file: 'dimensions/DimensionsPage' },
  data: { name: 'Data', group: 'Settings', icon: 'data', file: 'data/DataPage' },
  api: { name: 'API', group: 'Settings', icon: 'api', file: 'api-reference/ApiPage' },
} satisfies Record<string, PageEntry>

export type PageId = keyof typeof pages

/** The groups of the menu that have pages, in order. */
export function menu(): { group: string; ids: PageId[] }[] {
  const ids = Object.keys(pages) as PageId[]
  return GROUPS.map((group) => ({ group, ids: ids.filter((id) => pages[id].group === group) })).filter(
    ({ ids }) => ids.length > 0,
  )
}

/** Returns the page with this id; `undefined` if there is none. */
export function pageNamed(id: string): PageId | undefined {
  return Object.hasOwn(pages, id) ? (id as PageId) : undefined
}
