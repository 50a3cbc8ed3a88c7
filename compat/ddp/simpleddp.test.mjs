/** simpleddp, as its README uses it. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import simpleddp from 'simpleddp'
import WebSocket from 'ws'
import { until, World } from './world.mjs'

const SimpleDDP = simpleddp.default ?? simpleddp
/** It knows no `addedBefore`, so what is ranked is asked for without an order; the rank is a field. */
const PLAIN = { ordered: false, min_interval: 0 }

let world, page, game

const client = (SocketConstructor) =>
  new SimpleDDP({ endpoint: world.endpoint(), SocketConstructor, reconnectInterval: 50 })
const rows = (ddp) =>
  ddp
    .collection('board')
    .fetch()
    .sort((a, b) => a.rank - b.rank)
    .map(({ player, score }) => `${player} ${score}`)
const vars = (ddp) => Object.fromEntries(ddp.collection('vars').fetch().map(({ name, value }) => [name, value]))
/** An event of the client, once. */
const event = (ddp, name) => new Promise((resolve) => ddp.on(name, resolve))
const submit = (player, score) => world.write('POST', '/v1/boards/high/scores', { player, score })

before(async () => {
  world = await World.start()
  await submit('ann', 10)
  page = client(WebSocket)
  game = client(world.socketWithSecret())
  await Promise.all([page.connect(), game.connect()])
})

after(async () => {
  await Promise.all([page, game].map((ddp) => ddp?.disconnect()))
  await world?.end()
})

test('what is there is told, then what changes', async () => {
  await page.subscribe('board', 'high', PLAIN).ready()
  assert.deepEqual(rows(page), ['ann 10'])
  await submit('bo', 20)
  await submit('ann', 30)
  await until('two rows', () => rows(page).join() === 'ann 30,bo 20')
})

test('what is gone is removed', async () => {
  await game.subscribe('vars', null, PLAIN).ready()
  await world.write('PUT', '/v1/vars/speed', { value: 3 })
  await until('it is there', () => vars(game).speed === 3)
  await world.write('DELETE', '/v1/vars/speed')
  await until('it is gone', () => !('speed' in vars(game)))
})

test('a subscription that ends takes its documents along', async () => {
  // `subscribe` makes a promise of its own that nobody can catch; the event is for everybody.
  const refused = event(page, 'nosub')
  page.ddpConnection.sub('load', [])
  const { error } = await refused
  assert.deepEqual([error.error, error.errorType], [403, 'Meteor.Error'])
  const load = game.subscribe('load', null, { collection: 'accounts' })
  await load.ready()
  assert.ok(game.collection('accounts').fetch().length > 0)
  await load.stop()
  await until('they are gone', () => game.collection('accounts').fetch().length === 0)
})

test('a method gives its result, and what it changed is there', async () => {
  const saved = await game.apply('submit_score', [{ table: 'high', player: 'cy', score: 40 }])
  assert.deepEqual([saved.saved, saved.rank], [true, 1])
  await until('it is on the board', () => rows(page)[0] === 'cy 40')
  const refused = await page.call('submit_score', { table: 'high', player: 'cy' }).catch((error) => error)
  assert.deepEqual([refused.error, refused.errorType], [400, 'Meteor.Error'])
  assert.equal(refused.details.field, 'score')
  await assert.rejects(page.call('put_variable', { name: 'a', value: 1 }), { error: 403 })
  await assert.rejects(page.call('fly'), { error: 404 })
})

test('dates and bytes go both ways as EJSON', async () => {
  await game.call('put_variable', { name: 'at', value: new Date(0) })
  await until('the date is told', () => vars(game).at === '1970-01-01T00:00:00Z')
  await game.call('put_variable', { name: 'looks', value: { $escape: { $date: 5 } } })
  await until('it is no date', () => JSON.stringify(vars(game).looks)?.includes('$date'))
  const level = await game.call('save_level', { name: 'cave', player: 'bo', data: new Uint8Array([0, 1, 2]) })
  const saved = await world.write('GET', `/v1/levels/${level.id}`)
  assert.equal(saved.data, 'AAEC')
})

test('a key may be given with login', async () => {
  const late = new SimpleDDP({ endpoint: `ws://${world.listen}/ddp`, SocketConstructor: WebSocket })
  await late.connect()
  await assert.rejects(late.call('login', { key: 'pm_pk_wrong' }), { error: 401 })
  assert.equal((await late.call('login', { key: world.bootstrap.public_key })).game, 'demo')
  await late.subscribe('vars').ready()
  await late.disconnect()
})

test('it comes back after its connection was cut, and has what it missed', async () => {
  const back = event(page, 'connected')
  page.ddpConnection.socket.rawSocket.terminate()
  await submit('dee', 50)
  await back
  await until('four rows', () => rows(page).join() === 'dee 50,cy 40,ann 30,bo 20')
})

test('it comes back after the server was killed, and has what is there', async () => {
  const [left, back] = [event(page, 'disconnected'), event(page, 'connected')]
  await world.kill()
  await left
  await world.start()
  await back
  await until('four rows', () => rows(page).join() === 'dee 50,cy 40,ann 30,bo 20')
  await submit('eve', 60)
  await until('a fifth', () => rows(page)[0] === 'eve 60')
})
