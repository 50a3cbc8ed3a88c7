/** URLs of pages. The path names the page; everything within a page is in the query, because the server only serves page paths. */
import { pages, type PageId } from './pages'

export type { PageId }
export const PAGES = Object.keys(pages) as PageId[]

/** The parameters that open another view of a page. Any other parameter is a tab, filter or page number within the view. */
const VIEW_PARAMS = ['var', 'new', 'board', 'settings', 'level', 'flow', 'host', 'survey', 'player', 'cohort']

export type Params = Record<string, string | number | undefined>

/** Returns the page of a path; `undefined` if there is none. */
export function pageOf(pathname: string): PageId | undefined {
  const name = pathname.replace(/^\/|\/$/g, '')
  if (name === '') return 'live'
  return PAGES.find((page) => page === name && page !== 'live')
}

export function pathOf(page: PageId): string {
  return page === 'live' ? '/' : `/${page}`
}

/** Returns the URL of a page. The selected game is kept. */
export function hrefOf(current: URLSearchParams, page: PageId, params: Params = {}): string {
  const game = current.get('game')
  const query = new URLSearchParams(game ? { game } : {})
  return withParams(query, page, params)
}

/** Returns the URL of a page with some parameters of `current` changed; `undefined` removes a parameter. The others are kept, also repeated ones. */
export function withParams(current: URLSearchParams, page: PageId, params: Params): string {
  const query = new URLSearchParams(current)
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === '') query.delete(name)
    else query.set(name, String(value))
  }
  const text = query.toString()
  return pathOf(page) + (text && `?${text}`)
}

/** Returns true if the URLs are different views: navigating between them scrolls to the top. */
export function isOtherView(from: URL, to: URL): boolean {
  const view = (url: URL) => VIEW_PARAMS.map((name) => url.searchParams.get(name))
  return from.pathname !== to.pathname || view(from).join('\n') !== view(to).join('\n')
}

/** The properties of a click that decide whether the router handles it. */
export type Click = Pick<
  MouseEvent,
  'defaultPrevented' | 'button' | 'metaKey' | 'ctrlKey' | 'shiftKey' | 'altKey'
>

/** Returns true for a plain click: one that does not ask for a new tab, a new window or a download. */
export function isPlainClick(click: Click): boolean {
  const hasModifier = click.metaKey || click.ctrlKey || click.shiftKey || click.altKey
  return !click.defaultPrevented && click.button === 0 && !hasModifier
}
