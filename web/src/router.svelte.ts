/** The current URL, kept by the History API. Links between pages are followed without a page load. */
import { recordVisit } from './recent'
import { hrefOf, isOtherView, isPlainClick, pageOf, withParams, type PageId, type Params } from './router'

class Router {
  #url = $state.raw(new URL(location.href))
  /** The number of navigations to another page or view. */
  navigations = $state(0)

  /** Decides whether the user may leave the view. Set while there are unsaved changes. */
  guard: (() => boolean) | undefined

  readonly page: PageId | undefined = $derived(pageOf(this.#url.pathname))

  constructor() {
    addEventListener('popstate', () => this.#update())
    document.addEventListener('click', (click) => this.#onClick(click))
  }

  get url(): URL {
    return this.#url
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

  /** Returns the URL of this page with some parameters changed. */
  with(params: Params): string {
    return withParams(this.query, this.page ?? 'live', params)
  }

  go(href: string): void {
    const isLeaving = isOtherView(this.#url, new URL(href, location.href))
    if (isLeaving && this.guard && !this.guard()) return
    history.pushState(null, '', href)
    this.#update()
  }

  replace(href: string): void {
    history.replaceState(null, '', href)
    this.#update()
  }

  #update(): void {
    const from = this.#url
    this.#url = new URL(location.href)
    if (!isOtherView(from, this.#url)) return
    // The title is still that of the view that is left.
    if (pageOf(from.pathname)) recordVisit(from, document.title)
    this.navigations += 1
  }

  #onClick(click: MouseEvent): void {
    const link = click.target instanceof Element ? click.target.closest('a') : null
    if (!link || !isPlainClick(click) || link.target || link.hasAttribute('download')) return
    const url = new URL(link.href)
    if (url.origin !== location.origin || url.hash || !pageOf(url.pathname)) return
    click.preventDefault()
    this.go(url.href)
  }
}

export const router = new Router()
