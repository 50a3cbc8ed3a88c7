/** Tests of the client in a real browser. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { PARAMETERS, program } from '../test/readme.mjs'
import { chooseServer, pause, startBrowser, startPages, waitUntil } from './harness.mjs'
import { startWire } from './wire.mjs'

/** From the write of a variable until a game receives it. */
const SEEN_WITHIN_MS = 1_000
const NEVER_MS = 1e9

let browser
let pages
let server
/** Makes event names and ids unique to this run. */
const run = Date.now().toString(36)

before(async () => {
  ;[browser, pages, server] = await Promise.all([startBrowser(), startPages(), chooseServer()])
})

after(async () => {
  await browser?.close()
  pages?.close()
  server?.close()
})

test('events of a tab that was offline and closed are sent by the next tab', async () => {
  const name = `offline_${run}`
  const context = await browser.newContext()
  const page = await open(context, { flush_interval_ms: 50 })
  await context.setOffline(true)
  await page.evaluate((name) => {
    for (let n = 0; n < 40; n++) game.track(name, { value: n })
  }, name)
  await page.close()
  assert.equal(await server.counted(name), 0)
  await context.setOffline(false)
  await open(context)
  await waitUntil(async () => (await server.counted(name)) === 40)
  await context.close()
})

test('a tab that is closed at once loses no event', async () => {
  const name = `closed_${run}`
  const context = await browser.newContext()
  for (let tab = 0; tab < 5; tab++) {
    const page = await open(context, { flush_interval_ms: [0, 1, 5, 20, NEVER_MS][tab] })
    await page.evaluate((name) => {
      for (let n = 0; n < 20; n++) game.track(name, { value: n })
    }, name)
    await page.close()
  }
  await open(context)
  await waitUntil(async () => (await server.counted(name)) === 100)
  await pause(500)
  assert.equal(await server.counted(name), 100)
  await context.close()
})

test('two tabs do not send the same events twice', async () => {
  const name = `two_${run}`
  const context = await browser.newContext()
  const tabs = await Promise.all(
    [1, 2].map(() => open(context, { flush_interval_ms: NEVER_MS, sessions: false })),
  )
  const before = await server.duplicates()
  await Promise.all(
    tabs.map((tab) =>
      tab.evaluate(async (name) => {
        for (let n = 0; n < 500; n++) game.track(name, { value: n, props: { text: 'x'.repeat(200) } })
        await game.flush()
      }, name),
    ),
  )
  assert.equal(await server.counted(name), 1_000)
  assert.equal(await server.duplicates(), before)
  await context.close()
})

test('a page that is left sends its last events and its session end by beacon', async () => {
  const name = `left_${run}`
  const context = await browser.newContext()
  const page = await open(context, { flush_interval_ms: NEVER_MS })
  const ends = await server.counted('$session_end')
  await page.evaluate((name) => game.track(name), name)
  await page.goto('about:blank')
  await waitUntil(async () => (await server.counted(name)) === 1)
  await waitUntil(async () => (await server.counted('$session_end')) > ends)
  await context.close()
})

test('pages that are reloaded at any moment send each event once', async () => {
  const name = `reloaded_${run}`
  const wire = await startWire(server.url, { delay_ms: 15 })
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(pages.url)
  for (let load = 0; load < 40; load++) {
    await create(page, { url: wire.url, flush_interval_ms: [10, 100, 5_000][load % 3] })
    await page.evaluate((name) => {
      for (let n = 0; n < 20; n++) game.track(name, { value: n })
    }, name)
    await pause([0, 5, 30, 120][load % 4])
    await page.reload()
  }
  await create(page, { url: wire.url })
  await waitUntil(() => isSettled(page), 20_000)
  assert.deepEqual(wire.count(name), { sent: 800, repeated: 0 })
  assert.deepEqual(wire.count('$session_end'), { sent: 40, repeated: 0 })
  assert.equal(await server.counted(name), 800)
  await context.close()
  wire.close()
})

test('events whose last request was lost with the page are sent by the next page', async () => {
  const name = `lost_${run}`
  const wire = await startWire(server.url)
  const context = await browser.newContext()
  const page = await context.newPage()
  await page.goto(pages.url)
  wire.lose = () => true
  for (let load = 0; load < 5; load++) {
    await create(page, { url: wire.url, flush_interval_ms: [10, NEVER_MS][load % 2] })
    await page.evaluate((name) => {
      for (let n = 0; n < 20; n++) game.track(name, { value: n })
    }, name)
    await pause(50)
    await page.reload()
  }
  wire.lose = () => false
  assert.equal(await server.counted(name), 0)
  await create(page, { url: wire.url })
  await waitUntil(() => isSettled(page), 20_000)
  assert.deepEqual(wire.count(name), { sent: 100, repeated: 0 })
  assert.equal(await server.counted(name), 100)
  await context.close()
  wire.close()
})

test('a changed variable reaches all windows within a second', async () => {
  const name = `speed_${run}`
  await server.setVar(name, 1)
  const windows = await Promise.all([1, 2].map(async () => open(await browser.newContext())))
  for (const page of windows) {
    await page.evaluate((name) => {
      globalThis.seen = []
      game.vars.watch(name, (value) => seen.push(value))
    }, name)
    await page.waitForFunction(() => seen.at(-1) === 1)
  }
  const changed = Date.now()
  await server.setVar(name, 2)
  await Promise.all(
    windows.map((page) => page.waitForFunction(() => seen.at(-1) === 2, undefined, { polling: 20 })),
  )
  assert.ok(Date.now() - changed < SEEN_WITHIN_MS, `${Date.now() - changed} ms`)
  assert.deepEqual(await windows[0].evaluate(() => seen.filter((value) => value)), [1, 2])
  await Promise.all(windows.map((page) => page.context().close()))
})

test('a reopened page has the last variables while offline', async () => {
  const name = `sky_${run}`
  await server.setVar(name, 'red')
  const context = await browser.newContext()
  const page = await open(context)
  assert.equal(await page.evaluate(() => game.vars.load()), true)
  const again = await open(context, { defaults: { [name]: 'blue' } })
  await context.setOffline(true)
  assert.deepEqual(
    await again.evaluate(async (name) => [await game.vars.load(), game.vars.get(name)], name),
    [false, 'red'],
  )
  await context.close()
})

for (const kind of ['secure', 'insecure']) {
  test(`a score from a page in ${kind === 'secure' ? 'a secure' : 'an insecure'} context is signed and accepted`, async () => {
    const table = `stars_${kind}_${run}`
    const context = await browser.newContext()
    const address = kind === 'secure' ? pages.url : pages.insecureUrl
    const page = await open(context, { name: 'Brave Otter' }, address)
    assert.equal(await page.evaluate(() => isSecureContext), kind === 'secure')
    const rows = await page.evaluate(async (table) => {
      await game.board(table).submit(7)
      return (await game.board(table).list()).rows
    }, table)
    assert.deepEqual(
      rows.map(({ name, score, rank }) => [name, score, rank]),
      [['Brave Otter', 7, 1]],
    )
    await context.close()
  })
}

test('the examples of the README work', async () => {
  await server.addAchievement('first-jump')
  const context = await browser.newContext()
  const page = await open(context, { sessions: false })
  const code = program({ url: server.url, key: server.key })
  const logged = await page.evaluate(
    async ([parameters, code]) => {
      const calls = []
      const AsyncFunction = (async () => {}).constructor
      await new AsyncFunction(...parameters, code)(Playmeter, playmeterSha256, {
        log: (...values) => calls.push(values),
      })
      return calls
    },
    [PARAMETERS, code],
  )
  assert.deepEqual(logged.filter(([first]) => first !== 'speed is').at(-1), ['not_found', 404])
  assert.ok(logged.some((values) => values.includes('Brave Otter') && values.includes(120)))
  await context.close()
})

/** Opens the game's page and creates its client, `game`. An error in the page fails the test. */
async function open(context, options = {}, address = pages.url) {
  const page = await context.newPage()
  page.on('pageerror', (error) => assert.fail(error))
  await page.goto(address)
  await create(page, options)
  return page
}

/** Creates the client of a page, `game`. */
function create(page, options) {
  return page.evaluate(
    (options) => {
      const onError = (error) => {
        throw error
      }
      globalThis.game = new Playmeter({ onError, sha256: playmeterSha256, ...options })
    },
    { url: server.url, key: server.key, ...options },
  )
}

/** Returns true once no event is queued and the outcome of each request is known. */
function isSettled(page) {
  return page.evaluate(async () => {
    const names = Object.keys(localStorage).filter((name) => name.endsWith(':sent'))
    if (names.some((name) => localStorage[name] !== '[]')) return false
    for (const { name } of await indexedDB.databases()) {
      const db = await new Promise((done) => {
        indexedDB.open(name).onsuccess = ({ target }) => done(target.result)
      })
      const queued = await new Promise((done) => {
        db.transaction('events').objectStore('events').count().onsuccess = ({ target }) => done(target.result)
      })
      db.close()
      if (queued) return false
    }
    return true
  })
}
