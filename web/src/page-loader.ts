/** Loads the code of a page on its first visit. */
import type { Component } from 'svelte'
import type { Game } from './api'
import { pages, type PageId, type PageProps } from './pages'

interface PageModule<Props extends Record<string, unknown>> {
  default: Component<Props>
}

const modules = import.meta.glob<PageModule<Record<string, unknown>>>('./features/*/*Page.svelte')

/** Returns the component of a page. Rejects if its file cannot be loaded. */
export function loadPage(page: Exclude<PageId, 'api'>): Promise<PageModule<PageProps & Record<string, unknown>>> {
  return load(page) as Promise<PageModule<PageProps & Record<string, unknown>>>
}

/** Returns the API reference, which needs no session. */
export function loadReference(): Promise<PageModule<{ game: Game | undefined }>> {
  return load('api') as Promise<PageModule<{ game: Game | undefined }>>
}

function load(page: PageId): Promise<unknown> {
  return modules[pathOf(page)]?.() ?? Promise.reject(new Error(`no component of the page ${page}`))
}

function pathOf(page: PageId): string {
  return `./features/${pages[page].file}.svelte`
}
