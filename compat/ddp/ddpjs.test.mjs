/** ddp.js, which only reports events: resubscribing and resuming are up to the application. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import ddpjs from 'ddp.js'
import WebSocket from 'ws'
import { TestServer, until } from './server.mjs'

const DDP = ddpjs.default ?? ddpjs

/** A document store such as an application would write. */
class Store {
  documents = new Map()
  messages = []

  constructor(ddp) {
    ddp.on('added', ({ collection, id, fields }) => this.put('added', `${collection} ${id}`, fields))
    ddp.on('changed', ({ collection, id, fields, cleared }) => {
      const known = { ...this.documents.get(`${collection} ${id}`), ...fields }
      for (const name of cleared ?? []) delete known[name]
      this.put('changed', `${collection} ${id}`, known)
    })
    ddp.on('removed', ({ collection, id }) => {
      this.messages.push('removed')
      this.documents.delete(`${collection} ${id}`)
    })
  }

  put(kind, key, fields) {
    this.messages.push(kind)
    this.documents.set(key, fields)
  }

  rows() {
    const rows = [...this.documents.values()].sort((a, b) => a.rank - b.rank)
    return rows.map(({ player, score }) => `${player} ${score}`).join()
  }
}

let server, ddp, store

const next = (name) => new Promise((resolve) => ddp.once(name, resolve))
const submit = (player, score) => server.request('POST', '/v1/boards/high/scores', { player, score })
const subscribe = async (resume) => {
  const response = Promise.race([next('ready'), next('nosub')])
  ddp.sub('board', ['high', { ordered: false, min_interval: 0, ...(resume && { resume }) }])
  return response
}
const call = async (method, fields) => {
  const [result, updated] = [next('result'), next('updated')]
  ddp.method(method, [fields])
  await updated
  return result
}

before(async () => {
  server = await TestServer.start()
  await submit('ann', 10)
  const SocketConstructor = server.socketWithSecret()
  ddp = new DDP({ endpoint: server.endpoint('ddp'), SocketConstructor, reconnectInterval: 50 })
  store = new Store(ddp)
  await next('connected')
})

after(async () => {
  ddp?.disconnect()
  await server?.remove()
})

let ready

test('client connects, subscribes and receives changes', async () => {
  ready = await subscribe()
  assert.equal(ready.msg, 'ready')
  assert.equal(store.rows(), 'ann 10')
  await submit('bo', 20)
  await until('there are two rows', () => store.rows() === 'bo 20,ann 10')
})

test('method returns its result, error names its field', async () => {
  const { result } = await call('submit_score', { table: 'high', player: 'cy', score: 5 })
  assert.deepEqual([result.saved, result.rank], [true, 3])
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5', 'the change was sent before `updated`')
  const { error } = await call('submit_score', { table: 'high', player: 'cy' })
  assert.deepEqual([error.error, error.details.field, error.errorType], [400, 'score', 'Meteor.Error'])
})

test('client resumes after a dropped connection and receives only what it missed', async () => {
  const disconnected = next('disconnected')
  const reconnected = next('connected')
  ddp.socket.rawSocket.terminate()
  await disconnected
  await submit('dee', 1)
  await reconnected
  store.messages = []
  const resumed = await subscribe({ epoch: ready.epoch, offset: ready.offset })
  assert.equal(resumed.msg, 'ready')
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5,dee 1')
  assert.ok(!store.messages.includes('removed'))
  ready = resumed
})

test('client that resumes after a server restart is asked to reload', async () => {
  const [disconnected, reconnected] = [next('disconnected'), next('connected')]
  await server.kill()
  await disconnected
  await server.start()
  await reconnected
  const rejected = await subscribe({ epoch: ready.epoch, offset: ready.offset })
  assert.deepEqual([rejected.msg, rejected.error.error], ['nosub', 'reload'])
  store.documents.clear()
  assert.equal((await subscribe()).msg, 'ready')
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5,dee 1')
})

test('unsubscribing removes documents', async () => {
  const id = ddp.sub('board', ['high', { ordered: false, collection: 'again' }])
  await next('ready')
  const nosub = next('nosub')
  ddp.unsub(id)
  assert.equal((await nosub).id, id)
  await until('the documents are removed', () => ![...store.documents.keys()].some((key) => key.startsWith('again')))
})

test('ordered subscription uses messages that ddp.js ignores', async () => {
  const known = store.documents.size
  ddp.sub('board', ['high', { collection: 'ordered' }])
  await next('ready')
  assert.equal(store.documents.size, known)
})
