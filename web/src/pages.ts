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
  live: { name: 'Live', icon: 'live', load: () => import('./features/live/LivePage.svelte') },
  vars: { name: 'Vars', icon: 'vars', load: () => import('./features/vars/VarsPage.svelte') },
  boards: { name: 'Boards', icon: 'boards', load: () => import('./features/boards/BoardsPage.svelte') },
  levels: { name: 'Levels', icon: 'levels', load: () => import('./features/levels/LevelsPage.svelte') },
  flows: { name: 'Flows', icon: 'flows', load: () => import('./features/flows/FlowsPage.svelte') },
  collectors: {
    name: 'Collectors',
    icon: 'collectors',
    load: () => import('./features/collectors/CollectorsPage.svelte'),
  },
  hosts: { name: 'Hosts', icon: 'hosts', load: () => import('./features/hosts/HostsPage.svelte') },
}

export const apiPage = {
  name: 'API',
  icon: 'api' as const,
  load: () => import('./features/api-reference/ApiPage.svelte'),
}
