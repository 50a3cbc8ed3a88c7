/** A proxy in front of the server that records which events were sent, and can lose requests or responses. */
import { createServer, request as forward } from 'node:http'
import { pause } from './harness.mjs'

/** Starts the proxy. `delay_ms` delays each response; while `lose(url)` is true, the connection is cut without forwarding. */
export async function startWire(target, { delay_ms = 0 } = {}) {
  /** How often each event was sent, by its id. */
  const sent = new Map()
  const wire = { sent, lose: () => false }
  const server = createServer(async (request, response) => {
    const parts = []
    for await (const part of request) parts.push(part)
    const body = Buffer.concat(parts)
    if (wire.lose(request.url)) return request.socket.destroy()
    if (request.method === 'POST' && request.url.startsWith('/v1/events')) {
      for (const { id, event } of JSON.parse(body).events) {
        sent.set(id, { event, times: (sent.get(id)?.times ?? 0) + 1 })
      }
    }
    const { host, ...headers } = request.headers
    const upstream = forward(new URL(request.url, target), { method: request.method, headers })
    upstream.on('response', async (incoming) => {
      await pause(delay_ms)
      response.writeHead(incoming.statusCode, incoming.headers)
      incoming.pipe(response)
    })
    upstream.on('error', () => request.socket.destroy())
    upstream.end(body)
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  return Object.assign(wire, {
    url: `http://127.0.0.1:${server.address().port}`,
    /** Returns how many events were sent, and how many of them more than once. */
    count(name) {
      const all = [...sent.values()].filter(({ event }) => !name || event === name)
      return { sent: all.length, repeated: all.filter(({ times }) => times > 1).length }
    },
    close() {
      server.closeAllConnections()
      server.close()
    },
  })
}
