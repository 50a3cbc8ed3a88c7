/** simpleddp, used as in its README. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import simpleddp from 'simpleddp'
import WebSocket from 'ws'
import { TestServer, until } from './server.mjs'

const SimpleDDP = simpleddp.default ?? simpleddp
/** simpleddp does not support `addedBefore`, so the tests use unordered subscriptions; the rank is a field. */
const PLAIN = { ordered: false, min_interval: 0 }

let server, page, game

const client = (SocketConstructor) =>
  new SimpleDDP({ endpoint: server.endpoint(), SocketConstructor, reconnectInterval: 50 })
const rows = (ddp) =>
  ddp
    .collection('board')
    .fetch()
    .sort((a, b) => a.rank - b.rank)
    .map(({ player, score }) => `${player} ${score}`)
const vars = (ddp) => Object.fromEntries(ddp.collection('vars').fetch().map(({ name, value }) => [name, value]))
/** Resolves with the client's next event of this name. */
const event = (ddp, name) => new Promise((resolve) => ddp.on(name, resolve))
const submit = (player, score) => server.request('POST', '/v1/boards/high/scores', { player, score })

before(async () => {
  server = await TestServer.start()
  await submit('ann', 10)
  page = client(WebSocket)
  game = client(server.socketWithSecret())
  await Promise.all([page.connect(), game.connect()])
})

after(async () => {
  await Promise.all([page, game].map((ddp) => ddp?.disconnect()))
  await server?.remove()
})

test('subscription delivers the current documents, then changes', async () => {
  await page.subscribe('board', 'high', PLAIN).ready()
  assert.deepEqual(rows(page), ['ann 10'])
  await submit('bo', 20)
  await submit('ann', 30)
  await until('there are two rows', () => rows(page).join() === 'ann 30,bo 20')
})

test('deleted variable is removed', async () => {
  await game.subscribe('vars', null, PLAIN).ready()
  await server.request('PUT', '/v1/vars/speed', { value: 3 })
  await until('the variable is added', () => vars(game).speed === 3)
  await server.request('DELETE', '/v1/vars/speed')
  await until('the variable is removed', () => !('speed' in vars(game)))
})

test('stopping a subscription removes its documents', async () => {
  // `subscribe` would create a promise whose rejection cannot be handled, so this uses the event.
  const rejected = event(page, 'nosub')
  page.ddpConnection.sub('load', [])
  const { error } = await rejected
  assert.deepEqual([error.error, error.errorType], [403, 'Meteor.Error'])
  const load = game.subscribe('load', null, { collection: 'accounts' })
  await load.ready()
  assert.ok(game.collection('accounts').fetch().length > 0)
  await load.stop()
  await until('the documents are removed', () => game.collection('accounts').fetch().length === 0)
})

test('method returns its result, and its change is delivered', async () => {
  const saved = await game.apply('submit_score', [{ table: 'high', player: 'cy', score: 40 }])
  assert.deepEqual([saved.saved, saved.rank], [true, 1])
  await until('the score is on the board', () => rows(page)[0] === 'cy 40')
  const rejected = await page.call('submit_score', { table: 'high', player: 'cy' }).catch((error) => error)
  assert.deepEqual([rejected.error, rejected.errorType], [400, 'Meteor.Error'])
  assert.equal(rejected.details.field, 'score')
  await assert.rejects(page.call('put_variable', { name: 'a', value: 1 }), { error: 403 })
  await assert.rejects(page.call('fly'), { error: 404 })
})

test('EJSON dates and binary values are converted', async () => {
  await game.call('put_variable', { name: 'at', value: new Date(0) })
  await until('the date is delivered', () => vars(game).at === '1970-01-01T00:00:00Z')
  await game.call('put_variable', { name: 'looks', value: { $escape: { $date: 5 } } })
  await until('the escaped value is not a date', () => JSON.stringify(vars(game).looks)?.includes('$date'))
  const level = await game.call('save_level', { name: 'cave', player: 'bo', data: new Uint8Array([0, 1, 2]) })
  const saved = await server.request('GET', `/v1/levels/${level.id}`)
  assert.equal(saved.data, 'AAEC')
})

test('login accepts a key', async () => {
  const late = new SimpleDDP({ endpoint: `ws://${server.listen}/ddp`, SocketConstructor: WebSocket })
  await late.connect()
  await assert.rejects(late.call('login', { key: 'pm_pk_wrong' }), { error: 401 })
  assert.equal((await late.call('login', { key: server.bootstrap.public_key })).game, 'demo')
  await late.subscribe('vars').ready()
  await late.disconnect()
})

test('client reconnects after a dropped connection and catches up', async () => {
  const reconnected = event(page, 'connected')
  page.ddpConnection.socket.rawSocket.terminate()
  await submit('dee', 50)
  await reconnected
  await until('there are four rows', () => rows(page).join() === 'dee 50,cy 40,ann 30,bo 20')
})

test('client reconnects after a server restart and gets the current documents', async () => {
  const [disconnected, reconnected] = [event(page, 'disconnected'), event(page, 'connected')]
  await server.kill()
  await disconnected
  await server.start()
  await reconnected
  await until('there are four rows', () => rows(page).join() === 'dee 50,cy 40,ann 30,bo 20')
  await submit('eve', 60)
  await until('there is a fifth row', () => rows(page)[0] === 'eve 60')
})
