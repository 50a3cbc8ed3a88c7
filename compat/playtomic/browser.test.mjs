/** Playtomic clients in a real browser against a test server. README.md lists the requirements. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { STEPS, checkResponses } from './steps.mjs'
import { skipIf } from '../skip.mjs'

const { chromium } = createRequire(new URL('../../web/package.json', import.meta.url))('playwright-core')
const here = (name) => fileURLToPath(new URL(name, import.meta.url))
const BINARY = process.env.PLAYMETER_BINARY ?? here('../../target/release/playmeter')
const SDK = process.env.PLAYTOMIC_SDK
const TRACKER_SDK = process.env.PLAYTOMIC_TRACKER_SDK
/** The environment without settings of other servers. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))
const GUID = '7bf0867af8a64758'

let server, folder, bootstrap, pages, browser

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'playtomic-'))
  const stdio = ['ignore', 'pipe', 'inherit']
  server = spawn(BINARY, ['serve', '--data', folder, '--listen', '127.0.0.1:0'], { stdio, env: ENV })
  for await (const text of server.stdout) if (String(text).includes('Playmeter is ready')) break
  bootstrap = JSON.parse(readFileSync(join(folder, 'bootstrap.json'), 'utf8'))
  const servePage = (response) => response.setHeader('Content-Type', 'text/html').end('<!doctype html><body></body>')
  pages = createServer((_, response) => servePage(response)).listen(0, '127.0.0.1')
  await once(pages, 'listening')
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--no-first-run',
      '--disable-background-networking',
      `--host-resolver-rules=MAP *.api.playtomic.com ${new URL(bootstrap.url).host}`,
    ],
  })
})

after(async () => {
  await browser?.close()
  pages?.close()
  server?.kill()
  if (server) await once(server, 'exit')
  rmSync(folder, { recursive: true, force: true })
})

test('client with the bytes of the browser SDK gets the responses of the old service', async () => {
  await runScript(here('client.js'))
})

test(
  'published browser SDK works with a different host, and sends the same bytes',
  { skip: skipIf(!SDK, 'playtomic-sdk', 'PLAYTOMIC_SDK is not set') },
  async () => {
    const expected = await runScript(SDK)
    const actual = await runScript(here('client.js'))
    assert.deepEqual(actual, expected)
  },
)

test(
  'unmodified tracker SDK is accepted when its host resolves to this server',
  { skip: skipIf(!TRACKER_SDK, 'playtomic-sdk', 'PLAYTOMIC_TRACKER_SDK is not set') },
  async () => {
    assignKey(GUID)
    await onPage(async (page) => {
      await page.addScriptTag({ path: TRACKER_SDK })
      const responseTo = (part) => page.waitForResponse((response) => response.url().includes(part))
      // The SDK cancels a pending request when it sends the next one.
      const view = responseTo('q=v/')
      await page.evaluate((guid) => Playtomic.Log.View(940628, guid, 'http://www.games.example/arcade'), GUID)
      assert.equal((await view).status(), 200)
      const rest = responseTo('lc/')
      await page.evaluate(() => {
        const { Log } = Playtomic
        Log.Play()
        Log.CustomMetric('Opened a/b~c', 'Menu')
        Log.LevelCounterMetric('Deaths', 'Höhle 1')
        Log.PlayerLevelStart('a1')
        Log.ForceSend()
      })
      assert.equal((await rest).status(), 200)
    })
    const load = await get('/v1/load')
    assert.deepEqual(
      load.endpoints.filter(({ endpoint }) => endpoint === 'playtomic').map(({ received, accepted }) => [received, accepted]),
      [[5, 5]],
    )
    for (const metric of ['views', 'plays', 'Opened a/b-c', '$level_metric', '$level']) {
      const query = new URLSearchParams({ metric, step: 'all', 'where.source': 'games.example' })
      assert.equal((await get(`/v1/query?${query}`)).series[0]?.total, 1, metric)
    }
  },
)

/** Runs the whole script for a new, empty game and returns the request bodies. */
async function runScript(client) {
  const game = `game-${Math.random().toString(36).slice(2, 10)}`
  command('games', 'create', game)
  assignKey('testpublickey', game)
  await prepare(game)
  return onPage(async (page) => {
    const sent = []
    page.on('request', (request) => request.method() === 'POST' && sent.push(request.postData()))
    await page.addScriptTag({ path: client })
    await page.addScriptTag({ path: here('script.js') })
    const responses = await page.evaluate(([url, steps]) => globalThis.play(url, steps), [bootstrap.url, STEPS])
    assert.equal(sent.length, STEPS.length)
    checkResponses(responses)
    return sent.map(comparable)
  })
}

/** Returns a body in a comparable form: without a level's id, which differs between games. */
function comparable(body) {
  const json = Buffer.from(body.slice('data='.length).split('&')[0], 'base64').toString()
  return json.includes('"levelid"') ? json.replace(/"levelid":"[^"]*"/, '') : body
}

/** Creates the variables and achievements of the script's game. */
async function prepare(game) {
  const { secret_key: key } = JSON.parse(command('keys', 'create', '--game', game, '--scopes', 'admin', '--json'))
  const put = async (path, body) => {
    const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }
    const response = await fetch(bootstrap.url + path, { method: 'PUT', headers, body: JSON.stringify(body) })
    assert.ok(response.ok, `${path}: ${await response.text()}`)
  }
  await put('/v1/vars/testvar1', { value: 'testvalue1' })
  await put('/v1/vars/testvar2', { value: 'testvalue2' })
  for (const number of [1, 2, 3]) {
    const name = `Super Mega Achievement #${number}`
    await put(`/v1/achievements/secretkey${number === 1 ? '' : number}`, { name })
  }
}

async function onPage(action) {
  const page = await browser.newPage()
  try {
    await page.goto(`http://127.0.0.1:${pages.address().port}/`)
    return await action(page)
  } finally {
    await page.close()
  }
}

/** Assigns the keys that are compiled into a client to a game, and removes them from other games. */
function assignKey(key, game = 'demo') {
  for (const { id, playtomic } of JSON.parse(command('games', 'list', '--json'))) {
    if (playtomic.key === key && id !== game) command('games', 'playtomic', id, '--key', '')
  }
  command('games', 'playtomic', game, '--key', key, '--private-key', 'testprivatekey')
}

function command(...args) {
  const done = spawnSync(BINARY, [...args, '--data', folder], { encoding: 'utf8', env: ENV })
  assert.equal(done.status, 0, done.stderr)
  return done.stdout
}

async function get(path) {
  const response = await fetch(bootstrap.url + path, { headers: { Authorization: `Bearer ${bootstrap.secret_key}` } })
  assert.ok(response.ok, await response.clone().text())
  return response.json()
}
