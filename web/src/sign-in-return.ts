/** The page to return to after signing in: the one that asked for it. */
import { load, store } from './storage'

const NAME = 'return_to'
/** As long as a sign-in link works. */
const VALID_MS = 15 * 60_000

/** Stores the page that asks to sign in. */
export function askedAt(url: URL, nowMs: number): void {
  const isStart = url.pathname === '/' && (url.search === '' || url.searchParams.has('sign_in'))
  if (!isStart) store(NAME, { href: url.pathname + url.search, at: nowMs })
}

/** Returns the stored page once, if the browser is at the start page, where sign-in leads. */
export function takeReturn(url: URL, nowMs: number): string | undefined {
  const stored = load(NAME) as { href?: unknown; at?: unknown } | undefined
  store(NAME, undefined)
  if (url.pathname !== '/' || url.search !== '' || typeof stored?.at !== 'number') return undefined
  const isRecent = nowMs - stored.at >= 0 && nowMs - stored.at < VALID_MS
  return isRecent && isPath(stored.href) ? stored.href : undefined
}

/** `//host` would be another site. */
function isPath(href: unknown): href is string {
  return typeof href === 'string' && /^\/(?![/\\])/.test(href)
}
