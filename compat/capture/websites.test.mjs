/** The trackers of Plausible and Umami count their events after changing only their host. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { after, afterEach, before, beforeEach, test } from 'node:test'
import { dirname, join } from 'node:path'
import { Server } from './server.mjs'

const require = createRequire(import.meta.url)
const { chromium } = require('playwright-core')
const { Umami } = require('@umami/node')
/** The modules that the page imports, by the first part of their path. */
const MODULES = {
  'plausible-tracker': join(dirname(require.resolve('plausible-tracker/package.json')), 'build/module'),
  'plausible-official': join(import.meta.dirname, 'node_modules/@plausible-analytics/tracker'),
}
const userAgent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'

let server, pages, browser

before(async () => {
  pages = createServer((request, response) => {
    const [, name, ...rest] = new URL(request.url, 'http://x').pathname.split('/')
    const file = name in MODULES && [rest.join('/'), `${rest.join('/')}.js`].map((path) => join(MODULES[name], path)).find((path) => path.endsWith('.js') && existsSync(path))
    response.setHeader('Content-Type', file ? 'text/javascript' : 'text/html')
    response.end(file ? readFileSync(file) : '<!doctype html><title>a game</title><body style="height:3000px"></body>')
  }).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] })
})

after(async () => {
  await browser?.close()
  pages?.close()
})

beforeEach(async () => {
  server = await Server.start()
  server.command('games', 'sites', 'demo', '--add', 'game.example,94db1cb1-74f4-4a40-ad6c-962362670409')
})

afterEach(() => server?.stop())

async function open(path = '/play?utm_source=letter') {
  const page = await browser.newPage({ userAgent })
  page.on('pageerror', (error) => assert.fail(error))
  await page.goto(`http://127.0.0.1:${pages.address().port}${path}`)
  return page
}

async function assertCounted(endpoint, count) {
  const { received, accepted, reasons } = await server.waitForReceived(endpoint, count)
  assert.deepEqual([received, accepted], [count, count], JSON.stringify(reasons))
}

test('plausible-tracker with a different apiHost counts page views and events', async () => {
  const page = await open()
  await page.evaluate(async (apiHost) => {
    const { default: Plausible } = await import('/plausible-tracker/index')
    const { trackEvent, enableAutoPageviews } = Plausible({ domain: 'game.example', apiHost, trackLocalhost: true })
    enableAutoPageviews()
    history.pushState({}, '', '/shop')
    await new Promise((callback) => trackEvent('Signup', { callback, props: { plan: 'pro' } }))
  }, server.url)
  await assertCounted('plausible', 3)
  assert.deepEqual(await server.total('views', 'count', 'source'), { letter: 1, '': 1 })
  assert.equal(await server.total('Signup'), 1)
  assert.equal(await server.total('players'), 1, 'one visitor')
  await page.close()
})

test("Plausible's own tracker with a different endpoint counts revenue and engagement", async () => {
  const page = await open('/')
  const statuses = await page.evaluate(
    async ([url, domain]) => {
      const { init, track } = await import('/plausible-official/plausible.js')
      init({ domain, endpoint: `${url}/api/event`, captureOnLocalhost: true, autoCapturePageviews: false })
      const send = (name, options) => new Promise((callback) => track(name, { ...options, callback }))
      return [
        await send('pageview'),
        await send('Purchase', { revenue: { amount: 12.5, currency: 'EUR' }, props: { item: 'sword' } }),
      ].map(({ status }) => status)
    },
    [server.url, server.publicKey],
  )
  assert.deepEqual(statuses, [202, 202], 'the public key is a domain')
  assert.equal(await server.total('Purchase', 'sum'), 12.5)
  assert.equal(await server.total('views'), 1)
  await page.close()
})

test("Umami's Node.js client with a different host counts events", async () => {
  const umami = new Umami({ hostUrl: server.url, websiteId: '94db1cb1-74f4-4a40-ad6c-962362670409', userAgent })
  const responses = [
    await umami.track({ url: '/play', hostname: 'game.example', referrer: 'https://search.example/?q=1', title: 'Play' }),
    await umami.track('buy', { value: 3, item: 'sword' }),
    await umami.track({ name: 'win', id: 'bo', data: { round: 1 } }),
    await umami.identify({ plan: 'pro' }),
  ]
  assert.deepEqual(responses.map(({ status }) => status), [200, 200, 200, 200])
  assert.deepEqual(await responses[0].json(), {})
  await assertCounted('umami', 4)
  assert.deepEqual(await server.total('views', 'count', 'source'), { 'search.example': 1 })
  assert.equal(await server.total('buy', 'sum'), 3)
  assert.equal(await server.total('players'), 2, 'the visitor and `bo`')
})

test('unknown site, malformed body and large body are rejected and not counted', async () => {
  const post = async (path, body) => {
    const response = await fetch(server.url + path, { method: 'POST', body, headers: { Origin: 'https://game.example' } })
    assert.equal(response.headers.get('access-control-allow-origin'), '*')
    return [response.status, (await response.json()).field]
  }
  assert.deepEqual(await post('/api/event', '{"n":"pageview","d":"other.example"}'), [401, 'domain'])
  assert.deepEqual(await post('/api/send', '{"type":"event","payload":{"website":"other"}}'), [401, 'website'])
  assert.deepEqual(await post('/api/event', '{'), [400, undefined])
  assert.deepEqual(await post('/api/send', '{}'), [400, undefined])
  assert.deepEqual(await post('/api/event', `{"n":"${'x'.repeat(200_000)}"}`), [413, undefined])
  const preflight = await fetch(`${server.url}/api/send`, { method: 'OPTIONS', headers: { Origin: 'https://game.example' } })
  assert.deepEqual([preflight.status, preflight.headers.get('access-control-allow-origin')], [204, '*'])
  for (const endpoint of ['plausible', 'umami']) assert.equal(await server.accounting(endpoint), undefined)
})
