/** What the command palette finds besides pages: leaderboards, variables, metrics and players of the game. */
import type { Client } from '../../client'
import { pageNamed } from '../../pages'
import type { Params, PageId } from '../../router'
import type { PaletteItem } from './palette'

type Href = (page: PageId, params: Params) => string

const METRICS_MAX = 200
const PLAYERS_MAX = 6

/** Reads what does not depend on the entered text. A list that cannot be read is empty: the palette still opens pages. */
export async function readLists(client: Client, href: Href): Promise<PaletteItem[]> {
  const lists = await Promise.allSettled([boards(client, href), variables(client, href), metrics(client, href)])
  return lists.flatMap((list) => (list.status === 'fulfilled' ? list.value : []))
}

/** Returns the players whose ids contain the text. */
export async function findPlayers(client: Client, href: Href, text: string, signal: AbortSignal): Promise<PaletteItem[]> {
  const page = pageNamed('players')
  if (!page || text.length < 2) return []
  const params = { search: text, limit: PLAYERS_MAX }
  const { body } = await client.get<{ players: { player: string; country?: string }[] }>('/v1/players', params, signal)
  return body.players.map(({ player, country }) => ({
    section: 'Players',
    label: player,
    ...(country ? { detail: country } : {}),
    icon: 'players',
    href: href(page, { player }),
  }))
}

async function boards(client: Client, href: Href): Promise<PaletteItem[]> {
  const { body } = await client.get<{ boards: { table: string; title: string }[] }>('/v1/boards')
  return body.boards.map(({ table, title }) => ({
    section: 'Leaderboards',
    label: title || table,
    ...(title && title !== table ? { detail: table } : {}),
    icon: 'boards',
    href: href('boards', { board: table }),
  }))
}

async function variables(client: Client, href: Href): Promise<PaletteItem[]> {
  const { body } = await client.get<{ vars: Record<string, { description?: string }> }>('/v1/vars:definitions')
  return Object.entries(body.vars).map(([name, { description }]) => ({
    section: 'Variables',
    label: name,
    ...(description ? { detail: description } : {}),
    icon: 'vars',
    href: href('vars', { var: name }),
  }))
}

async function metrics(client: Client, href: Href): Promise<PaletteItem[]> {
  const page = pageNamed('explore')
  if (!page) return []
  const params = { metric: 'events', by: 'event', last: '7d', step: 'all', top: METRICS_MAX }
  const { body } = await client.get<{ series: { key: { event?: string } }[] }>('/v1/query', params)
  const names = body.series.flatMap(({ key }) => key.event ?? [])
  return names.map((name) => ({ section: 'Metrics', label: name, icon: 'explore', href: href(page, { metric: name }) }))
}
