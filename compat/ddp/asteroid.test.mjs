/** asteroid: a login with a better key over an open connection, and after a reconnection. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createClass } from 'asteroid'
import WebSocket from 'ws'
import { TestServer, until } from './server.mjs'

const Asteroid = createClass()

let server, asteroid
const values = new Map()
const removed = []

const putVariable = (name, value) => asteroid.call('put_variable', { name, value })
const event = (emitter, name) => new Promise((resolve) => emitter.once(name, resolve))

before(async () => {
  server = await TestServer.start()
  await server.request('PUT', '/v1/vars/speed', { value: 1 })
  asteroid = new Asteroid({ endpoint: server.endpoint(), SocketConstructor: WebSocket, reconnectInterval: 50 })
  asteroid.ddp.on('added', ({ collection, id, fields }) => values.set(`${collection} ${id}`, fields))
  asteroid.ddp.on('changed', ({ collection, id, fields }) => Object.assign(values.get(`${collection} ${id}`), fields))
  asteroid.ddp.on('removed', (message) => removed.push(message))
  await event(asteroid, 'connected')
})

after(async () => {
  asteroid?.disconnect()
  await server?.remove()
})

const variable = (name) => [...values.values()].find((fields) => fields.name === name)?.value

test('subscription continues when a secret key replaces the public one', async () => {
  const vars = asteroid.subscribe('vars', null, { ordered: false, min_interval: 0 })
  const errors = []
  vars.on('error', (error) => errors.push(error))
  await event(vars, 'ready')
  assert.equal(variable('speed'), 1)
  await assert.rejects(putVariable('speed', 2), { error: 403 })
  assert.equal(await asteroid.login({ key: server.bootstrap.secret_key }), 'demo')
  assert.ok(asteroid.loggedIn)
  await putVariable('speed', 2)
  await until('the change is delivered', () => variable('speed') === 2)
  assert.deepEqual([removed, errors], [[], []])
  await event(asteroid.subscribe('load', null, { ordered: false }), 'ready')
})

test('login is repeated after a dropped connection', async () => {
  const loggedIn = event(asteroid, 'loggedIn')
  asteroid.ddp.socket.rawSocket.terminate()
  assert.equal(await loggedIn, 'demo')
  await putVariable('speed', 3)
  await until('the change is delivered', () => variable('speed') === 3)
})

test('wrong key is rejected', async () => {
  await assert.rejects(asteroid.login({ key: 'pm_sk_wrong' }), { error: 401 })
  await assert.rejects(asteroid.loginWithPassword({ username: 'bo', password: 'x' }), { error: 400 })
  await putVariable('speed', 4)
})
