/** sockjs-client over each of its transports that the server has. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import SockJS from 'sockjs-client'
import { TestServer, until } from './server.mjs'

let server

before(async () => {
  server = await TestServer.start()
})

after(() => server?.remove())

/** A connection with the messages that it received. */
class Client {
  messages = []

  constructor(transport) {
    this.socket = new SockJS(`${server.bootstrap.url}/sockjs`, null, { transports: [transport] })
    this.socket.onmessage = ({ data }) => this.messages.push(JSON.parse(data))
    this.closed = new Promise((resolve) => (this.socket.onclose = resolve))
    this.opened = new Promise((resolve) => (this.socket.onopen = resolve))
  }

  send(message) {
    this.socket.send(JSON.stringify(message))
  }

  async next(msg) {
    await until(`there is ${msg}`, () => this.messages.some((message) => message.msg === msg))
    const [message] = this.messages.splice(this.messages.findIndex((message) => message.msg === msg), 1)
    return message
  }
}

for (const transport of ['websocket', 'xhr-streaming', 'xhr-polling']) {
  test(`${transport}: methods, subscriptions and changes in order`, async () => {
    const client = new Client(transport)
    await client.opened
    assert.equal(client.socket.transport, transport)
    client.send({ msg: 'connect', version: '1', support: ['1'] })
    await client.next('connected')
    client.send({ msg: 'method', id: 'l', method: 'login', params: [{ key: server.bootstrap.secret_key }] })
    assert.equal((await client.next('result')).result.game, 'demo')
    const variable = `speed-${transport}`
    const options = { ordered: false, min_interval: 0 }
    client.send({ msg: 'sub', id: 's', name: 'vars', params: [null, options] })
    await client.next('ready')
    for (let value = 1; value <= 20; value++) {
      client.send({ msg: 'method', id: `m${value}`, method: 'put_variable', params: [{ name: variable, value: `é☃ ${value}` }] })
    }
    const last = () => client.messages.findLast(({ msg, fields }) => ['added', 'changed'].includes(msg) && fields.value)
    await until('the last change is delivered', () => last()?.fields.value === 'é☃ 20')
    const results = () => client.messages.filter(({ msg }) => msg === 'result').map(({ id, error }) => error ?? id)
    await until('all methods have results', () => results().length === 20)
    assert.deepEqual(results().sort(), Array.from({ length: 20 }, (_, at) => `m${at + 1}`).sort())
    client.socket.close()
    await client.closed
  })
}

test('pages of other origins may use it, with their own credential only', async () => {
  const headers = { Origin: 'https://games.example' }
  const info = await fetch(`${server.bootstrap.url}/sockjs/info`, { headers })
  const { websocket, cookie_needed: cookieNeeded, origins } = await info.json()
  assert.deepEqual([websocket, cookieNeeded, origins], [true, false, ['*:*']])
  for (const [path, method] of [['info', 'OPTIONS'], ['0/abc/xhr', 'OPTIONS'], ['0/abc/xhr_send', 'OPTIONS'], ['0/abc/xhr', 'POST']]) {
    const response = await fetch(`${server.bootstrap.url}/sockjs/${path}`, { method, headers })
    const of = (name) => response.headers.get(`access-control-allow-${name}`)
    assert.deepEqual([of('origin'), of('credentials')], ['https://games.example', 'true'], path)
    assert.equal(response.status, method === 'OPTIONS' ? 204 : 200)
    if (method === 'POST') assert.equal(await response.text(), 'o\n')
  }
})
