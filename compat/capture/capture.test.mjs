/** Published clients of other services, with only their host changed, deliver exactly what they sent. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { after, before, beforeEach, afterEach, test } from 'node:test'
import { Server } from './server.mjs'

const require = createRequire(import.meta.url)
const { chromium } = require('playwright-core')
const { Analytics } = require('@segment/analytics-node')
const POSTHOG = require.resolve('posthog-js/dist/array.full.js')
const GAMEANALYTICS = require.resolve('gameanalytics/dist/GameAnalytics.min.js')

let server, pages, browser

before(async () => {
  const answer = (response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>a game</title>')
  pages = createServer((_, response) => answer(response)).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] })
})

after(async () => {
  await browser?.close()
  pages?.close()
})

beforeEach(async () => {
  server = await Server.start()
})

afterEach(() => server?.stop())

/** What a player's browser says it is: a headless one counts as a bot, and no bot is a player. */
const userAgent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'

/** A page of a game, of another origin than the server. */
async function open(script) {
  const page = await browser.newPage({ userAgent })
  page.on('pageerror', (error) => assert.fail(error))
  await page.goto(`http://127.0.0.1:${pages.address().port}/game`)
  await page.addScriptTag({ content: readFileSync(script, 'utf8') })
  return page
}

test('posthog-js with another api_host delivers what it captured', async () => {
  const page = await open(POSTHOG)
  await page.evaluate(([url, key]) => {
    // Its own filter takes a headless browser for a bot and would send nothing.
    const options = { api_host: url, person_profiles: 'always', opt_out_useragent_filter: true, autocapture: false }
    window.posthog.init(key, { ...options, capture_pageview: false, capture_pageleave: false })
    window.posthog.capture('level_up', { level: 'castle', value: 3, lives: 2 })
    window.posthog.capture('level_up', { level: 'cave', value: 4 })
    window.posthog.capture('$pageview')
    window.posthog.identify('bo', { plan: 'pro' })
    for (let round = 0; round < 20; round++) window.posthog.capture('win', { round })
  }, [server.url, server.publicKey])
  const account = await server.received('posthog', 24)
  // A page that is left sends what waits as a beacon: a form with base64 in it.
  await page.evaluate(() => window.posthog.capture('goodbye'))
  await page.goto('about:blank')
  await server.received('posthog', 25)
  assert.deepEqual([account.accepted, account.invalid, account.duplicate], [24, 0, 0])
  assert.equal(await server.total('level_up'), 2)
  assert.equal(await server.total('level_up', 'sum'), 7)
  assert.deepEqual(await server.total('level_up', 'count', 'level'), { castle: 1, cave: 1 })
  assert.equal(await server.total('views'), 1)
  assert.equal(await server.total('win'), 20)
  assert.equal(await server.total('goodbye'), 1)
  assert.equal(await server.total('players'), 1, 'who is identified is the one who played before')
  await page.close()
})

test("Segment's library for Node with another host delivers what it was called with", async () => {
  const analytics = new Analytics({ writeKey: server.publicKey, host: server.url, flushAt: 7 })
  const failures = []
  analytics.on('error', (failure) => failures.push(failure))
  for (let round = 0; round < 50; round++) {
    analytics.track({ userId: `u${round % 5}`, event: 'Round Won', properties: { value: round, map: 'cave' } })
  }
  analytics.page({ anonymousId: 'an1', name: 'Home' })
  analytics.screen({ userId: 'u1', name: 'Shop' })
  analytics.group({ userId: 'u1', groupId: 'clan' })
  analytics.identify({ userId: 'u1', traits: { plan: 'pro' } })
  analytics.identify({ userId: 'u1', anonymousId: 'an1' })
  await analytics.closeAndFlush()
  const account = await server.received('segment', 55)
  assert.deepEqual([account.accepted, account.invalid, failures], [55, 0, []])
  assert.equal(await server.total('Round Won'), 50)
  assert.equal(await server.total('Round Won', 'sum'), (49 * 50) / 2)
  assert.equal(await server.total('Round Won', 'uniques'), 5)
  assert.equal(await server.total('views'), 1)
  assert.equal(await server.total('players'), 5, 'an1 is u1')
})

test('a call that is sent again is counted once', async () => {
  const body = JSON.stringify({ type: 'track', event: 'win', userId: 'bo', messageId: 'node-next-1', writeKey: server.publicKey })
  for (let time = 0; time < 2; time++) await fetch(`${server.url}/v1/track`, { method: 'POST', body })
  const account = await server.account('segment')
  assert.deepEqual([account.accepted, account.duplicate], [1, 1])
})

test("GameAnalytics' JavaScript SDK with another host delivers every category", async () => {
  const { gameanalytics: keys } = server.command('games', 'gameanalytics', 'demo')
  const page = await open(GAMEANALYTICS)
  await page.evaluate(([url, key, secret]) => {
    const { GameAnalytics, http } = window.gameanalytics
    Object.assign(http.GAHTTPApi.instance, { baseUrl: `${url}/v2`, remoteConfigsBaseUrl: `${url}/remote_configs/v1` })
    GameAnalytics.configureBuild('1.0')
    GameAnalytics.configureUserId('bo')
    GameAnalytics.configureAvailableResourceCurrencies(['gems'])
    GameAnalytics.configureAvailableResourceItemTypes(['boost'])
    GameAnalytics.initialize(key, secret)
    GameAnalytics.addDesignEvent('kill:robot', 7)
    GameAnalytics.addDesignEvent('kill:robot', 5)
    GameAnalytics.addProgressionEvent(1, 'world1', 'level2')
    GameAnalytics.addProgressionEvent(2, 'world1', 'level2', '', 10)
    GameAnalytics.addBusinessEvent('USD', 499, 'pack', 'sword', 'shop')
    GameAnalytics.addResourceEvent(1, 'gems', 5, 'boost', 'speed')
    GameAnalytics.addErrorEvent(3, 'boom')
  }, [server.url, keys.key, keys.secret_key])
  const account = await server.received('gameanalytics', 8)
  assert.deepEqual([account.accepted, account.invalid], [8, 0], JSON.stringify(account.reasons))
  assert.equal(await server.total('kill:robot'), 2)
  assert.equal(await server.total('kill:robot', 'sum'), 12)
  assert.equal(await server.total('$session_start'), 1)
  assert.deepEqual(await server.total('$level', 'count', 'level'), { 'world1:level2': 2 })
  assert.equal(await server.total('$business', 'sum'), 4.99)
  assert.equal(await server.total('$resource', 'sum'), 5)
  assert.equal(await server.total('$error'), 1)
  assert.deepEqual(await server.total('kill:robot', 'count', 'version'), { '1.0': 2 })
  await page.close()
})

test('a wrong key, a wrong signature and a broken body are refused and count nothing', async () => {
  const { gameanalytics: keys } = server.command('games', 'gameanalytics', 'demo')
  const post = async (path, body, headers = {}) => (await fetch(server.url + path, { method: 'POST', body, headers })).status
  assert.equal(await post('/batch/', '{"api_key":"pm_pk_nobody","batch":[]}'), 401)
  assert.equal(await post('/batch/', `{"api_key":"${server.publicKey}","batch":`), 400)
  assert.equal(await post('/v1/batch', '{"writeKey":"pm_pk_nobody","batch":[]}'), 401)
  assert.equal(await post(`/v2/${keys.key}/events`, '[]', { Authorization: 'AAAA' }), 401)
  assert.equal(await post('/v2/nobody/events', '[]'), 401)
  for (const endpoint of ['posthog', 'segment', 'gameanalytics']) assert.equal(await server.account(endpoint), undefined)
})
