/** ddp.js, which gives its events and leaves the rest to who uses it: subscribing again, and resuming. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import ddpjs from 'ddp.js'
import WebSocket from 'ws'
import { until, World } from './world.mjs'

const DDP = ddpjs.default ?? ddpjs

/** Documents as its users keep them. */
class Store {
  documents = new Map()
  told = []

  constructor(ddp) {
    ddp.on('added', ({ collection, id, fields }) => this.put('added', `${collection} ${id}`, fields))
    ddp.on('changed', ({ collection, id, fields, cleared }) => {
      const known = { ...this.documents.get(`${collection} ${id}`), ...fields }
      for (const name of cleared ?? []) delete known[name]
      this.put('changed', `${collection} ${id}`, known)
    })
    ddp.on('removed', ({ collection, id }) => {
      this.told.push('removed')
      this.documents.delete(`${collection} ${id}`)
    })
  }

  put(kind, key, fields) {
    this.told.push(kind)
    this.documents.set(key, fields)
  }

  rows() {
    const rows = [...this.documents.values()].sort((a, b) => a.rank - b.rank)
    return rows.map(({ player, score }) => `${player} ${score}`).join()
  }
}

let world, ddp, store

const next = (name) => new Promise((resolve) => ddp.once(name, resolve))
const submit = (player, score) => world.write('POST', '/v1/boards/high/scores', { player, score })
const subscribe = async (resume) => {
  const answer = Promise.race([next('ready'), next('nosub')])
  ddp.sub('board', ['high', { ordered: false, min_interval: 0, ...(resume && { resume }) }])
  return answer
}
const call = async (method, fields) => {
  const [result, updated] = [next('result'), next('updated')]
  ddp.method(method, [fields])
  await updated
  return result
}

before(async () => {
  world = await World.start()
  await submit('ann', 10)
  const SocketConstructor = world.socketWithSecret()
  ddp = new DDP({ endpoint: world.endpoint('ddp'), SocketConstructor, reconnectInterval: 50 })
  store = new Store(ddp)
  await next('connected')
})

after(async () => {
  ddp?.disconnect()
  await world?.end()
})

let ready

test('it connects, subscribes and is told what changes', async () => {
  ready = await subscribe()
  assert.equal(ready.msg, 'ready')
  assert.equal(store.rows(), 'ann 10')
  await submit('bo', 20)
  await until('two rows', () => store.rows() === 'bo 20,ann 10')
})

test('a method gives its result, and an error its field', async () => {
  const { result } = await call('submit_score', { table: 'high', player: 'cy', score: 5 })
  assert.deepEqual([result.saved, result.rank], [true, 3])
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5', 'what it changed was told before `updated`')
  const { error } = await call('submit_score', { table: 'high', player: 'cy' })
  assert.deepEqual([error.error, error.details.field, error.errorType], [400, 'score', 'Meteor.Error'])
})

test('after a cut it resumes and is told only what it missed', async () => {
  const cut = next('disconnected')
  const back = next('connected')
  ddp.socket.rawSocket.terminate()
  await cut
  await submit('dee', 1)
  await back
  store.told = []
  const resumed = await subscribe({ epoch: ready.epoch, offset: ready.offset })
  assert.equal(resumed.msg, 'ready')
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5,dee 1')
  assert.ok(!store.told.includes('removed'))
  ready = resumed
})

test('after the server was killed it is told to begin again, and does', async () => {
  const [left, back] = [next('disconnected'), next('connected')]
  await world.kill()
  await left
  await world.start()
  await back
  const refused = await subscribe({ epoch: ready.epoch, offset: ready.offset })
  assert.deepEqual([refused.msg, refused.error.error], ['nosub', 'reload'])
  store.documents.clear()
  assert.equal((await subscribe()).msg, 'ready')
  assert.equal(store.rows(), 'bo 20,ann 10,cy 5,dee 1')
})

test('what is unsubscribed is removed', async () => {
  const id = ddp.sub('board', ['high', { ordered: false, collection: 'again' }])
  await next('ready')
  const gone = next('nosub')
  ddp.unsub(id)
  assert.equal((await gone).id, id)
  await until('they are gone', () => ![...store.documents.keys()].some((key) => key.startsWith('again')))
})

test('what is ranked comes in words that it does not know, unless it asks for none', async () => {
  const known = store.documents.size
  ddp.sub('board', ['high', { collection: 'ordered' }])
  await next('ready')
  assert.equal(store.documents.size, known)
})
