/** Server-sent events with automatic reconnects. */
import { backoffMs } from './errors.js'
import { parse } from './http.js'

const KINDS = ['snapshot', 'change', 'reset']
const CLOSED = 2

/**
 * Subscribes to the messages of a stream until the returned function is called. `url` is evaluated for each connection.
 *
 * A hidden page closes its connection: a browser opens at most six to a server, for all tabs together.
 */
export function subscribe(url: () => string, onMessage: (kind: string, data: any) => void): () => void {
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
    const current = (source = new EventSource(url()))
    for (const kind of KINDS) {
      current.addEventListener(kind, ({ data }) => {
        failures = 0
        onMessage(kind, parse(data))
      })
    }
    // The browser reconnects after a network error, but gives up after a response that is not a stream.
    current.onerror = () => {
      if (current.readyState === CLOSED) timer = setTimeout(open, backoffMs(++failures))
    }
  }
  page?.addEventListener('visibilitychange', open)
  open()
  return () => {
    page?.removeEventListener('visibilitychange', open)
    close()
  }
}
