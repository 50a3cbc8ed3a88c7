/** Where the person is, by the History API; links between pages are followed without loading anew. */
import { changed, hrefOf, isElsewhere, isPlain, pageOf, type PageId, type Params } from './router'

class Router {
  #url = $state.raw(new URL(location.href))
  /** Rises when the person comes to another page or view. */
  arrivals = $state(0)

  /** Asked before the person goes elsewhere: whether they may. Set while something is not saved. */
  guard: (() => boolean) | undefined

  readonly page: PageId | undefined = $derived(pageOf(this.#url.pathname))

  constructor() {
    addEventListener('popstate', () => this.#arrive())
    document.addEventListener('click', (click) => this.#clicked(click))
  }

  get query(): URLSearchParams {
    return this.#url.searchParams
  }

  param(name: string): string {
    return this.#url.searchParams.get(name) ?? ''
  }

  href(page: PageId, params?: Params): string {
    return hrefOf(this.query, page, params)
  }

  /** This page with other parameters. */
  with(params: Params): string {
    return changed(this.query, this.page ?? 'live', params)
  }

  go(href: string): void {
    const isLeaving = isElsewhere(this.#url, new URL(href, location.href))
    if (isLeaving && this.guard && !this.guard()) return
    history.pushState(null, '', href)
    this.#arrive()
  }

  replace(href: string): void {
    history.replaceState(null, '', href)
    this.#arrive()
  }

  #arrive(): void {
    const from = this.#url
    this.#url = new URL(location.href)
    if (isElsewhere(from, this.#url)) this.arrivals += 1
  }

  #clicked(click: MouseEvent): void {
    const link = click.target instanceof Element ? click.target.closest('a') : null
    if (!link || !isPlain(click) || link.target || link.hasAttribute('download')) return
    const url = new URL(link.href)
    if (url.origin !== location.origin || url.hash || !pageOf(url.pathname)) return
    click.preventDefault()
    this.go(url.href)
  }
}

export const router = new Router()
