/** Server-sent events that come back after every error. */
import { backOffMs } from './errors.js'
import { parse } from './http.js'

const KINDS = ['snapshot', 'change', 'reset']
const CLOSED = 2

/**
 * Hears until the function that it gives back is called. `url` is asked at each connection.
 *
 * A page that nobody sees holds no connection: a browser opens six to a server, for all of its tabs.
 */
export function hear(url: () => string, heard: (kind: string, data: any) => void): () => void {
  const page = globalThis.document
  let source: EventSource | undefined
  let timer: ReturnType<typeof setTimeout>
  let failures = 0
  const close = () => {
    clearTimeout(timer)
    source?.close()
  }
  const open = () => {
    close()
    if (page?.hidden) return
    const opened = (source = new EventSource(url()))
    for (const kind of KINDS) {
      opened.addEventListener(kind, ({ data }) => {
        failures = 0
        heard(kind, parse(data))
      })
    }
    // A broken connection is the browser's to repair; after an answer that was no stream it gives up.
    opened.onerror = () => {
      if (opened.readyState === CLOSED) timer = setTimeout(open, backOffMs(++failures))
    }
  }
  page?.addEventListener('visibilitychange', open)
  open()
  return () => {
    page?.removeEventListener('visibilitychange', open)
    close()
  }
}
