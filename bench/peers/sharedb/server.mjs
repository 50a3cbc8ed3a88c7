// ShareDB with its in-memory store: one document for all subscribers, and players for live queries.
//
// `POST /publish` sets the document's `total` to that of the body; `POST /score` gives the next player a new score.
// Both respond after the operation is committed.
//
// usage: node server.mjs PORT GAMES PLAYERS_OF_A_GAME
import { createServer } from 'node:http'
import { promisify } from 'node:util'
import WebSocketJSONStream from '@teamwork/websocket-json-stream'
import ShareDB from 'sharedb'
import mingo from 'sharedb-mingo-memory'
import { WebSocketServer } from 'ws'

const BODY_BYTES_MAX = 64 << 10
const [port, games, playersOfAGame] = process.argv.slice(2).map(Number)

const backend = new ShareDB({ db: mingo(), doNotForwardSendPresenceErrorsToClient: true })
const connection = backend.connect()

const document = await createDocument('bench', 'document', { total: 0 })
const players = []
for (let number = 0; number < playersOfAGame; number++) {
  for (let game = 0; game < games; game++) {
    players.push(await createDocument('players', `${game}-${number}`, { game, name: `player ${number}`, score: number }))
  }
}
let scores = 0

const writes = {
  '/publish': ({ total }) => set(document, 'total', total),
  // Higher than all earlier scores, so that the order of the game's top ten changes.
  '/score': () => set(players[scores % players.length], 'score', players.length + scores++),
}

const http = createServer(async (request, response) => {
  const write = request.method === 'POST' && writes[request.url]
  if (!write) return response.writeHead(404).end()
  try {
    await write(await read(request))
    response.writeHead(204).end()
  } catch (error) {
    response.writeHead(400).end(String(error))
  }
})

const sockets = new WebSocketServer({ server: http, perMessageDeflate: false })
sockets.on('connection', (socket) => backend.listen(new WebSocketJSONStream(socket)))

async function createDocument(collection, id, data) {
  const doc = connection.get(collection, id)
  await promisify(doc.create.bind(doc))(data)
  return doc
}

function set(doc, field, value) {
  return promisify(doc.submitOp.bind(doc))({ p: [field], od: doc.data[field], oi: value })
}

async function read(request) {
  let text = ''
  for await (const part of request.setEncoding('utf8')) {
    text += part
    if (text.length > BODY_BYTES_MAX) throw new Error('the body is too large')
  }
  return JSON.parse(text)
}

http.listen({ port, host: '127.0.0.1', backlog: 4096 })
