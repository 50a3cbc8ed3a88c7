/** The views that were visited last, for the command palette. */
import { load, store } from './storage'

export interface Visit {
  /** Path and query. */
  href: string
  title: string
}

const VISITS_MAX = 12

/** Returns the list with a visit added in front. A view that is listed already moves to the front. */
export function withVisit(visits: Visit[], visit: Visit): Visit[] {
  return [visit, ...visits.filter(({ href }) => href !== visit.href)].slice(0, VISITS_MAX)
}

/** `Speed · Demo game · Playmeter` → `Speed`: a title without the game and the product. */
export function viewTitle(documentTitle: string): string {
  return documentTitle.split(' · ').slice(0, -2).join(' · ')
}

/** Returns the stored views of a game, the last one first. */
export function visitsOf(game: string): Visit[] {
  return visits().filter(({ href }) => new URLSearchParams(href.split('?')[1]).get('game') === game)
}

/** Stores that a view is left. A view without a title, such as one that failed to load, is not stored. */
export function recordVisit(url: URL, documentTitle: string): void {
  const title = viewTitle(documentTitle)
  const visit = { href: url.pathname + url.search, title }
  if (title && [...removed].every((text) => withoutText([visit], text).length > 0)) store('recent', withVisit(visits(), visit))
}

/** Texts that no stored view may contain: the view that is left after an erasure would be stored again. */
const removed = new Set<string>()

/** Removes the stored views whose address or title contains a text, such as the id of a player who was erased, and stores no such view again. */
export function removeVisits(text: string): void {
  removed.add(text)
  store('recent', withoutText(visits(), text))
}

/** Returns the views whose address and title do not contain the text. */
export function withoutText(visits: Visit[], text: string): Visit[] {
  return visits.filter(({ href, title }) => {
    const values = [...new URLSearchParams(href.split('?')[1]).values()]
    return ![title, ...values].some((value) => value.includes(text))
  })
}

/** Removes all stored views, so that the next person at this browser does not see them. */
export function clearVisits(): void {
  store('recent', undefined)
}

function visits(): Visit[] {
  const stored = load('recent')
  return Array.isArray(stored) ? stored.filter(isVisit) : []
}

function isVisit(value: unknown): value is Visit {
  const visit = value as Partial<Visit> | null
  return typeof visit?.href === 'string' && visit.href.startsWith('/') && typeof visit.title === 'string'
}
