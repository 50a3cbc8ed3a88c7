/**
 * A browser and a server for the tests of the pages.
 *
 * PLAYMETER_URL, PLAYMETER_SIGN_IN_URL, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY say which server (they are in
 * `bootstrap.json`); without them the mock is started. PLAYMETER_SHOTS names a folder for pictures, CHROMIUM the browser.
 * `npm run build` comes first when the mock is used.
 */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before } from 'node:test'
import { chromium } from 'playwright-core'
import { PUBLIC_KEY, SECRET_KEY, startMock } from '../mock/server.mjs'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const SHOTS = process.env.PLAYMETER_SHOTS
export const DESKTOP = { width: 1440, height: 900 }
export const PHONE = { width: 390, height: 844 }
export const VIEWS = [
  ['dark', 'desktop', DESKTOP],
  ['light', 'desktop', DESKTOP],
  ['dark', 'phone', PHONE],
  ['light', 'phone', PHONE],
]

/** The server and the browser of a test file, from `before` until `after`. */
export const world = { server: undefined, browser: undefined }

/** `prepare` makes what the tests find. */
export function useWorld(prepare = async () => undefined) {
  before(async () => {
    world.server = await chooseServer()
    await prepare()
    world.browser = await chromium.launch({
      executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    })
  })
  after(async () => {
    await world.browser?.close()
    world.server?.close()
  })
}

/** Opens a page signed in; whatever the browser complained of fails the test, but for answers that are expected. */
export async function onPage(path, { theme = 'dark', viewport = DESKTOP, timezone, expected = [] }, check) {
  const seen = { viewport, colorScheme: theme, timezoneId: timezone }
  const context = await world.browser.newContext({ ...seen, acceptDownloads: true })
  const page = await context.newPage()
  const complaints = []
  const isExpected = (text) => expected.some((status) => text.includes(`status of ${status}`))
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (said) => said.type() === 'error' && !isExpected(said.text()) && complaints.push(said.text()))
  await page.goto(world.server.signInUrl)
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  if (path !== '/') await page.goto(world.server.url + path)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await check(page)
  await context.close()
  assert.deepEqual(complaints, [])
}

/** What has to hold of every page, in any theme and at any width. */
export async function isWholeAndReadable(page, name) {
  const { width } = page.viewportSize()
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, `${name} scrolls sideways`)
  await shoot(page, name)
  await nothingIsHardToRead(page)
}

/** WCAG 2 A and AA, contrast among them, by axe. */
export async function nothingIsHardToRead(page) {
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.evaluate(AXE)
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'] }),
  )
  const found = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
  )
  assert.deepEqual(found, [])
}

/** Asks the server as a program with the secret key does. */
export async function ask(method, path, body) {
  const answer = await fetch(world.server.url + path, {
    method,
    headers: { Authorization: `Bearer ${world.server.secretKey}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

/** Waits for what no single element shows. */
export async function until(page, holds, withinMs = 8_000) {
  for (const end = Date.now() + withinMs; Date.now() < end; await page.waitForTimeout(100)) {
    if (await holds()) return
  }
  assert.fail(`not within ${withinMs} ms: ${holds}`)
}

export async function shoot(page, name) {
  if (!SHOTS) return
  mkdirSync(SHOTS, { recursive: true })
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: join(SHOTS, `${name}.png`) })
  await page.screenshot({ path: join(SHOTS, `${name}-whole.png`), fullPage: true })
}

/** Whether it is a server that can serve the demo game, and keeps what earlier tests did. */
export const isReal = Boolean(process.env.PLAYMETER_URL)

async function chooseServer() {
  const { PLAYMETER_URL, PLAYMETER_SIGN_IN_URL, PLAYMETER_PUBLIC_KEY, PLAYMETER_SECRET_KEY } = process.env
  if (!PLAYMETER_URL) return { publicKey: PUBLIC_KEY, secretKey: SECRET_KEY, ...(await startMock()) }
  return {
    url: PLAYMETER_URL.replace(/\/$/, ''),
    signInUrl: PLAYMETER_SIGN_IN_URL,
    publicKey: PLAYMETER_PUBLIC_KEY,
    secretKey: PLAYMETER_SECRET_KEY,
    close() {},
  }
}
