/**
 * The test harness: a browser, a server and the page of a game.
 *
 * PLAYMETER_URL, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY select a server; by default the mock is
 * started. CHROMIUM is the path of the browser. Run `npm run build` first.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'
import { startMock } from '../mock/server.mjs'

const DIST = new URL('../dist/', import.meta.url)
const PAGE =
  '<!doctype html><title>A game</title><script src="/playmeter.iife.js"></script><script src="/sha256.iife.js"></script>'
/** A host name of this machine that browsers treat as insecure. */
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

/** Serves the page of the game from another origin than the server's. */
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

/** Starts the mock or connects to a real server; both have the same methods. */
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
  const request = async (method, path, value) => {
    const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' }
    const response = await fetch(url + path, { method, headers, body: value && JSON.stringify(value) })
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${response.ok ? '' : await response.text()}`)
    return response.json()
  }
  return {
    url,
    key,
    close() {},
    counted: async (name) => {
      const { series } = await request('GET', `/v1/query?metric=${encodeURIComponent(name)}&step=all`)
      return series[0]?.total ?? 0
    },
    duplicates: async () => (await request('GET', '/v1/load')).totals?.duplicate ?? 0,
    setVar: (name, value) => request('PUT', `/v1/vars/${name}`, { value }),
    addAchievement: (name) => request('PUT', `/v1/achievements/${name}`, { name }),
  }
}

/** Waits until a condition is met. */
export async function waitUntil(holds, withinMs = 8_000) {
  for (const end = Date.now() + withinMs; Date.now() < end; await pause(25)) if (await holds()) return
  assert.fail(`condition not met within ${withinMs} ms: ${holds}`)
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms))
