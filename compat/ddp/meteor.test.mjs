/** meteor-client-side in Chromium, on a page of another origin: over a WebSocket, and over polling where there is none. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { after, before, test } from 'node:test'
import { TestServer } from './server.mjs'

const { chromium } = createRequire(new URL('../../web/package.json', import.meta.url))('playwright-core')
const METEOR = createRequire(import.meta.url).resolve('meteor-client-side')

let server, pages, browser

before(async () => {
  server = await TestServer.start()
  await server.request('PUT', '/v1/vars/speed', { value: 1 })
  const servePage = (response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html><body></body>')
  pages = createServer((_, response) => servePage(response)).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking'],
  })
})

after(async () => {
  await browser?.close()
  pages?.close()
  await server?.remove()
})

for (const [transport, prepare] of [
  ['websocket', () => {}],
  ['xhr-polling', () => delete window.WebSocket],
]) {
  test(`client connects over ${transport}, logs in, subscribes and calls methods`, async () => {
    const page = await browser.newPage()
    const requests = []
    page.on('request', (request) => requests.push(new URL(request.url()).pathname))
    page.on('websocket', (socket) => requests.push(new URL(socket.url()).pathname))
    await page.goto(`http://127.0.0.1:${pages.address().port}/`)
    await page.evaluate(prepare)
    await page.evaluate((url) => {
      window.__meteor_runtime_config__ = { DDP_DEFAULT_CONNECTION_URL: url, ROOT_URL: url }
    }, server.bootstrap.url)
    await page.addScriptTag({ path: METEOR })
    await page.waitForFunction(() => Meteor.status().connected)
    await page.evaluate((key) => {
      const call = (method, fields) =>
        new Promise((resolve) => Meteor.call(method, fields, (error, result) => resolve(error ? error.error : result)))
      window.call = call
      window.vars = new Meteor.Collection('vars')
      return call('login', { key })
    }, server.bootstrap.public_key)
    await page.evaluate(
      () =>
        new Promise((resolve, reject) =>
          Meteor.subscribe('vars', null, { ordered: false, min_interval: 0 }, { onReady: resolve, onStop: reject }),
        ),
    )
    const value = (name) => page.evaluate((name) => window.vars.findOne({ name })?.value, name)
    assert.equal(typeof (await value('speed')), 'number')
    const next = (await value('speed')) + 1
    await server.request('PUT', '/v1/vars/speed', { value: next })
    await page.waitForFunction((next) => window.vars.findOne({ name: 'speed' }).value === next, next)
    assert.equal(await page.evaluate(() => window.call('put_variable', { name: 'speed', value: 0 })), 403)
    const score = { table: transport, player: 'bo', score: 7 }
    await server.request('PUT', `/v1/boards/${transport}`, { mode: 'open' })
    assert.equal((await page.evaluate((score) => window.call('submit_score', score), score)).rank, 1)
    const suffix = transport === 'websocket' ? '/websocket' : '/xhr'
    assert.ok(requests.some((path) => path.startsWith('/sockjs/') && path.endsWith(suffix)), requests.join())
    assert.ok(requests.includes('/sockjs/info'))
    await page.close()
  })
}

test('client reconnects after a server restart and gets the current documents', async () => {
  const page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${pages.address().port}/`)
  await page.evaluate((url) => {
    window.__meteor_runtime_config__ = { DDP_DEFAULT_CONNECTION_URL: url, ROOT_URL: url }
  }, server.bootstrap.url)
  await page.addScriptTag({ path: METEOR })
  await page.evaluate((key) => {
    // As a game does: it logs in on every connection, before its subscriptions are sent again.
    Meteor.connection.onReconnect = () => Meteor.call('login', { key })
    Meteor.connection.onReconnect()
    window.vars = new Meteor.Collection('vars')
    Meteor.subscribe('vars', null, { ordered: false, min_interval: 0 })
  }, server.bootstrap.public_key)
  await page.waitForFunction(() => window.vars.findOne({ name: 'speed' }))
  await server.kill()
  await page.waitForFunction(() => !Meteor.status().connected)
  await server.start()
  await server.request('PUT', '/v1/vars/speed', { value: 99 })
  await page.evaluate(() => Meteor.reconnect())
  await page.waitForFunction(() => window.vars.findOne({ name: 'speed' })?.value === 99)
  await page.close()
})
