/** Server-sent events that come back after every error. */
import { backOffMs } from './errors.js'
import { parse } from './http.js'

const KINDS = ['snapshot', 'change', 'reset']
const CLOSED = 2

/** Hears until the function that it gives back is called. `url` is asked at each connection. */
export function hear(url: () => string, heard: (kind: string, data: any) => void): () => void {
  let source: EventSource
  let timer: ReturnType<typeof setTimeout>
  let failures = 0
  const open = () => {
    source = new EventSource(url())
    for (const kind of KINDS) {
      source.addEventListener(kind, ({ data }) => {
        failures = 0
        heard(kind, parse(data))
      })
    }
    // A broken connection is the browser's to repair; after an answer that was no stream it gives up.
    source.onerror = () => {
      if (source.readyState === CLOSED) timer = setTimeout(open, backOffMs(++failures))
    }
  }
  open()
  return () => {
    clearTimeout(timer)
    source.close()
  }
}
