/** Which page an address means. What is within a page stands in the query: the server knows pages only. */

export const PAGES = ['live', 'vars', 'boards', 'levels', 'flows', 'collectors', 'hosts', 'api'] as const
export type PageId = (typeof PAGES)[number]

/** What opens another view of the same page, as opposed to another tab, filter or leaf of a view. */
const VIEWS = ['var', 'new', 'board', 'settings', 'level', 'flow', 'host']

export type Params = Record<string, string | number | undefined>

/** The page of a path; `undefined` where there is none. */
export function pageOf(pathname: string): PageId | undefined {
  const name = pathname.replace(/^\/|\/$/g, '')
  if (name === '') return 'live'
  return PAGES.find((page) => page === name && page !== 'live')
}

export function pathOf(page: PageId): string {
  return page === 'live' ? '/' : `/${page}`
}

/** The address of a page; the chosen game goes along. */
export function hrefOf(current: URLSearchParams, page: PageId, params: Params = {}): string {
  const game = current.get('game')
  const query = new URLSearchParams(game ? { game } : {})
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== '') query.set(name, String(value))
  }
  const text = query.toString()
  return pathOf(page) + (text && `?${text}`)
}

/** The same page with other parameters; `undefined` takes one away. */
export function changed(current: URLSearchParams, page: PageId, params: Params): string {
  const kept = Object.fromEntries(current)
  return hrefOf(current, page, { ...kept, ...params })
}

/** Whether somebody who goes from one address to the other is somewhere else, and begins at its top. */
export function isElsewhere(from: URL, to: URL): boolean {
  const view = (url: URL) => VIEWS.map((name) => url.searchParams.get(name))
  return from.pathname !== to.pathname || view(from).join('\n') !== view(to).join('\n')
}

/** What of a click decides whether the page follows the link itself. */
export type Click = Pick<
  MouseEvent,
  'defaultPrevented' | 'button' | 'metaKey' | 'ctrlKey' | 'shiftKey' | 'altKey'
>

/** Whether a click on a link is an ordinary one, that asks for no new tab, window or file. */
export function isPlain(click: Click): boolean {
  const held = click.metaKey || click.ctrlKey || click.shiftKey || click.altKey
  return !click.defaultPrevented && click.button === 0 && !held
}
