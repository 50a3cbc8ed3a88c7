/** The pages and their files, each fetched when somebody first comes to it. */
import type { Component } from 'svelte'
import type { Game } from './api'
import type { Client } from './client'
import type { IconName } from './components/Icon.svelte'
import type { PageId } from './router'

/** What every page is given. */
export interface PageProps {
  game: Game
  client: Client
  /** Asked when a stream was refused: only a plain "no" ends the session. */
  stillSignedIn: () => Promise<boolean>
}

export interface Page {
  name: string
  icon: IconName
  load: () => Promise<{ default: Component<PageProps> }>
}

/** All but the one that is read without signing in. */
export const pages: Record<Exclude<PageId, 'api'>, Page> = {
  live: { name: 'Live', icon: 'live', load: () => import('./pages/LivePage.svelte') },
  vars: { name: 'Vars', icon: 'vars', load: () => import('./pages/VarsPage.svelte') },
  boards: { name: 'Boards', icon: 'boards', load: () => import('./pages/BoardsPage.svelte') },
  levels: { name: 'Levels', icon: 'levels', load: () => import('./pages/LevelsPage.svelte') },
  flows: { name: 'Flows', icon: 'flows', load: () => import('./pages/FlowsPage.svelte') },
  collectors: {
    name: 'Collectors',
    icon: 'collectors',
    load: () => import('./pages/CollectorsPage.svelte'),
  },
  hosts: { name: 'Hosts', icon: 'hosts', load: () => import('./pages/HostsPage.svelte') },
}

export const apiPage = {
  name: 'API',
  icon: 'api' as const,
  load: () => import('./pages/ApiPage.svelte'),
}
