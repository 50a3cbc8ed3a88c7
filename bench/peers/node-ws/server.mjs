// The plain broadcast server that most teams would write first: each posted body is sent to every WebSocket.
//
// `ws` is configured as its documentation advises for many clients: no compression, no client list of our own, one
// buffer for all clients.
//
// usage: node server.mjs PORT
import { createServer } from 'node:http'
import { WebSocket, WebSocketServer } from 'ws'

const BODY_BYTES_MAX = 64 << 10

const http = createServer(async (request, response) => {
  if (request.method !== 'POST' || request.url !== '/publish') return response.writeHead(404).end()
  const body = await read(request)
  if (!body) return response.writeHead(413).end()
  publish(body)
  response.writeHead(204).end()
})

const sockets = new WebSocketServer({ server: http, perMessageDeflate: false, clientTracking: true })

function publish(body) {
  for (const socket of sockets.clients) {
    if (socket.readyState === WebSocket.OPEN) socket.send(body, { binary: false })
  }
}

async function read(request) {
  const parts = []
  let bytes = 0
  for await (const part of request) {
    bytes += part.length
    if (bytes > BODY_BYTES_MAX) return undefined
    parts.push(part)
  }
  return Buffer.concat(parts)
}

http.listen({ port: Number(process.argv[2]), host: '127.0.0.1', backlog: 4096 })
