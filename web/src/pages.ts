/** The pages of the menu. Each page's code is loaded on the first visit. */
import type { Component } from 'svelte'
import type { Game } from './api'
import type { Client } from './client'
import type { IconName } from './components/Icon.svelte'
import type { PageId } from './router'

/** The props of every page. */
export interface PageProps {
  game: Game
  client: Client
  /** Asks the server whether the session is still valid; called when a stream was rejected. */
  checkSignedIn: () => Promise<boolean>
}

export interface PageEntry {
  name: string
  icon: IconName
  load: () => Promise<{ default: Component<PageProps> }>
}

/** Every page except the API reference, which needs no session. */
export const pages: Record<Exclude<PageId, 'api'>, PageEntry> = {
  live: { name: 'Live', icon: 'live', load: () => import('./features/live/LivePage.svelte') },
  vars: { name: 'Variables', icon: 'vars', load: () => import('./features/vars/VarsPage.svelte') },
  boards: { name: 'Leaderboards', icon: 'boards', load: () => import('./features/boards/BoardsPage.svelte') },
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
