/**
 * A browser, a server and a page of a game: what the tests in Chromium stand on.
 *
 * PLAYMETER_URL, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY say which server; without them the mock is
 * started. CHROMIUM names the browser. `npm run build` comes first.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'
import { startMock } from '../mock/server.mjs'

const DIST = new URL('../dist/', import.meta.url)
const PAGE =
  '<!doctype html><title>A game</title><script src="/playmeter.iife.js"></script><script src="/sha256.iife.js"></script>'
/** A name that browsers do not count as secure, though it is this machine. */
const LAN = 'game.lan.test'

export async function startBrowser() {
  const args = [
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ]
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: [...args, `--host-resolver-rules=MAP ${LAN} 127.0.0.1`],
  })
}

/** Serves the page of the game from an origin of its own, as most games are. */
export async function startPages() {
  const server = createServer(({ url }, response) => {
    const script = url.endsWith('.js')
    response.setHeader('Content-Type', script ? 'text/javascript' : 'text/html')
    response.end(script ? readFileSync(new URL(`.${url}`, DIST)) : PAGE)
  })
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address()
  return {
    url: `http://127.0.0.1:${port}/`,
    insecureUrl: `http://${LAN}:${port}/`,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

/** The mock or the real one, with the same words for both. */
export async function chooseServer() {
  const { PLAYMETER_URL: url, PLAYMETER_PUBLIC_KEY: key, PLAYMETER_SECRET_KEY: secret } = process.env
  return url ? real(url.replace(/\/$/, ''), key, secret) : mock()
}

async function mock() {
  const { game, requests, publicKey, ...rest } = await startMock()
  return {
    ...rest,
    key: publicKey,
    counted: async (name) => game.events.filter(({ event }) => event === name).length,
    duplicates: async () => game.duplicates,
    setVar: async (name, value) => rest.setVars({ ...game.vars, [name]: value }),
    addAchievement: async () => {},
  }
}

function real(url, key, secret) {
  const ask = async (method, path, value) => {
    const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, { method, headers, body: value && JSON.stringify(value) })
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${answer.ok ? '' : await answer.text()}`)
    return answer.json()
  }
  return {
    url,
    key,
    close() {},
    counted: async (name) => {
      const { series } = await ask('GET', `/v1/query?metric=${encodeURIComponent(name)}&step=all`)
      return series[0]?.total ?? 0
    },
    duplicates: async () => (await ask('GET', '/v1/load')).totals?.duplicate ?? 0,
    setVar: (name, value) => ask('PUT', `/v1/vars/${name}`, { value }),
    addAchievement: (name) => ask('PUT', `/v1/achievements/${name}`, { name }),
  }
}

/** Waits for what happens elsewhere. */
export async function until(holds, withinMs = 8_000) {
  for (const end = Date.now() + withinMs; Date.now() < end; await pause(25)) if (await holds()) return
  assert.fail(`not within ${withinMs} ms: ${holds}`)
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms))
