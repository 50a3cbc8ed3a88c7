/** Published clients of other services work after changing only their host: everything they send is counted. */
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
  const servePage = (response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>a game</title>')
  pages = createServer((_, response) => servePage(response)).listen(0, '127.0.0.1')
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

/** The user agent of a player's browser: a headless browser counts as a bot, and bots are not players. */
const userAgent = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36'

/** Opens a game's page, whose origin differs from the server's. */
async function open(script) {
  const page = await browser.newPage({ userAgent })
  page.on('pageerror', (error) => assert.fail(error))
  await page.goto(`http://127.0.0.1:${pages.address().port}/game`)
  await page.addScriptTag({ content: readFileSync(script, 'utf8') })
  return page
}

test('posthog-js with a different api_host delivers all captured events', async () => {
  const page = await open(POSTHOG)
  await page.evaluate(([url, key]) => {
    // PostHog's own filter treats a headless browser as a bot and would send nothing.
    const options = { api_host: url, person_profiles: 'always', opt_out_useragent_filter: true, autocapture: false }
    window.posthog.init(key, { ...options, capture_pageview: false, capture_pageleave: false })
    window.posthog.capture('level_up', { level: 'castle', value: 3, lives: 2 })
    window.posthog.capture('level_up', { level: 'cave', value: 4 })
    window.posthog.capture('$pageview')
    window.posthog.identify('bo', { plan: 'pro' })
    for (let round = 0; round < 20; round++) window.posthog.capture('win', { round })
  }, [server.url, server.publicKey])
  const accounting = await server.waitForReceived('posthog', 24)
  // A page that is closed sends pending events as a beacon: a form that contains base64.
  await page.evaluate(() => window.posthog.capture('goodbye'))
  await page.goto('about:blank')
  await server.waitForReceived('posthog', 25)
  assert.deepEqual([accounting.accepted, accounting.invalid, accounting.duplicate], [24, 0, 0])
  assert.equal(await server.total('level_up'), 2)
  assert.equal(await server.total('level_up', 'sum'), 7)
  assert.deepEqual(await server.total('level_up', 'count', 'level'), { castle: 1, cave: 1 })
  assert.equal(await server.total('views'), 1)
  assert.equal(await server.total('win'), 20)
  assert.equal(await server.total('goodbye'), 1)
  assert.equal(await server.total('players'), 1, 'the identified player is the anonymous one from before')
  await page.close()
})

test("Segment's Node.js library with a different host delivers all calls", async () => {
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
  const accounting = await server.waitForReceived('segment', 55)
  assert.deepEqual([accounting.accepted, accounting.invalid, failures], [55, 0, []])
  assert.equal(await server.total('Round Won'), 50)
  assert.equal(await server.total('Round Won', 'sum'), (49 * 50) / 2)
  assert.equal(await server.total('Round Won', 'uniques'), 5)
  assert.equal(await server.total('views'), 1)
  assert.equal(await server.total('players'), 5, 'an1 is u1')
})

test('repeated call is counted once', async () => {
  const body = JSON.stringify({ type: 'track', event: 'win', userId: 'bo', messageId: 'node-next-1', writeKey: server.publicKey })
  for (let time = 0; time < 2; time++) await fetch(`${server.url}/v1/track`, { method: 'POST', body })
  const accounting = await server.accounting('segment')
  assert.deepEqual([accounting.accepted, accounting.duplicate], [1, 1])
})

test("GameAnalytics' JavaScript SDK with a different host delivers every category", async () => {
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
  const accounting = await server.waitForReceived('gameanalytics', 8)
  assert.deepEqual([accounting.accepted, accounting.invalid], [8, 0], JSON.stringify(accounting.reasons))
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

test('wrong key, wrong signature and malformed body are rejected and not counted', async () => {
  const { gameanalytics: keys } = server.command('games', 'gameanalytics', 'demo')
  const post = async (path, body, headers = {}) => (await fetch(server.url + path, { method: 'POST', body, headers })).status
  assert.equal(await post('/batch/', '{"api_key":"pm_pk_nobody","batch":[]}'), 401)
  assert.equal(await post('/batch/', `{"api_key":"${server.publicKey}","batch":`), 400)
  assert.equal(await post('/v1/batch', '{"writeKey":"pm_pk_nobody","batch":[]}'), 401)
  assert.equal(await post(`/v2/${keys.key}/events`, '[]', { Authorization: 'AAAA' }), 401)
  assert.equal(await post('/v2/nobody/events', '[]'), 401)
  for (const endpoint of ['posthog', 'segment', 'gameanalytics']) assert.equal(await server.accounting(endpoint), undefined)
})
