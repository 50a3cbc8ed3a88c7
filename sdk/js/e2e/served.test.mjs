/** Tests of the client that the server serves, loaded by pages of another origin. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { chooseServer, startBrowser, waitUntil } from './harness.mjs'

const skip = process.env.PLAYMETER_URL ? false : 'server-only'
const run = Date.now().toString(36)
let browser
let server
let files
let origin
/** The page that the other origin serves. */
let html = ''

before(async () => {
  if (skip) return
  ;[browser, server] = await Promise.all([startBrowser(), chooseServer()])
  files = (await (await fetch(`${server.url}/sdk/integrity.json`)).json()).files
  origin = createServer((_, response) => {
    // The strictest isolation that a page can ask for.
    response.setHeader('Cross-Origin-Embedder-Policy', 'require-corp')
    response.setHeader('Content-Type', 'text/html').end(`<!doctype html><title>A game</title>${html}`)
  })
  await new Promise((done) => origin.listen(0, '127.0.0.1', done))
})

after(async () => {
  await browser?.close()
  origin?.closeAllConnections()
  origin?.close()
})

async function open() {
  const page = await (await browser.newContext()).newPage()
  const errors = []
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  await page.goto(`http://127.0.0.1:${origin.address().port}/`)
  return { page, errors }
}

function script(name, integrity) {
  return `<script src="${server.url}${files[name].url}" integrity="${integrity}" crossorigin="anonymous"></script>`
}

test('a page of another origin loads the script with its hash and sends an event', { skip }, async () => {
  html = script('playmeter.js', files['playmeter.js'].integrity) + script('sha256.js', files['sha256.js'].integrity)
  const { page, errors } = await open()
  const name = `served_${run}`
  await page.evaluate(
    ([url, key, name]) => {
      globalThis.game = new Playmeter({ url, key, sha256: playmeterSha256 })
      game.track(name)
      return game.flush()
    },
    [server.url, server.key, name],
  )
  await waitUntil(async () => (await server.counted(name)) === 1)
  assert.deepEqual(errors, [])
})

test('a script that differs from its hash is not run', { skip }, async () => {
  html = script('playmeter.js', files['sha256.js'].integrity)
  const { page, errors } = await open()
  assert.equal(await page.evaluate(() => typeof globalThis.Playmeter), 'undefined')
  assert.match(errors.join(), /integrity/)
})

test('a page of another origin imports the module', { skip }, async () => {
  html = ''
  const { page } = await open()
  const name = `imported_${run}`
  await page.evaluate(
    async ([url, key, name]) => {
      const { Playmeter } = await import(`${url}/sdk/playmeter.mjs`)
      const game = new Playmeter({ url, key, sessions: false })
      game.track(name)
      await game.flush()
    },
    [server.url, server.key, name],
  )
  await waitUntil(async () => (await server.counted(name)) === 1)
})
