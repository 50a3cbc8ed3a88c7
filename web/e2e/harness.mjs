/**
 * The test harness: a browser and a server for the page tests.
 *
 * PLAYMETER_URL, PLAYMETER_SESSION, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY select a server (`scripts/with-server`
 * sets them); by default the mock is started, which needs `npm run build` first. PLAYMETER_SHOTS is a folder
 * for screenshots, CHROMIUM the path of the browser.
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
export const VIEWPORTS = [
  ['dark', 'desktop', DESKTOP],
  ['light', 'desktop', DESKTOP],
  ['dark', 'phone', PHONE],
  ['light', 'phone', PHONE],
]

/** The server and the browser of a test file; set by `setup`. */
export const env = { server: undefined, browser: undefined }

/** Registers hooks that start and stop the server and the browser. `prepare` creates the data of the tests. */
export function setup(prepare = async () => undefined) {
  before(async () => {
    env.server = await chooseServer()
    await prepare()
    env.browser = await chromium.launch({
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
    await env.browser?.close()
    env.server?.close()
  })
}

/** Opens a page signed in. Any error in the browser's console fails the test, except for the expected HTTP statuses and texts. */
export async function withPage(path, { theme = 'dark', viewport = DESKTOP, timezone, expected = [] }, check) {
  const options = { viewport, colorScheme: theme, timezoneId: timezone }
  const context = await env.browser.newContext({ ...options, acceptDownloads: true })
  const page = await context.newPage()
  const errors = []
  const isExpected = (text) => expected.some((status) => text.includes(typeof status === 'number' ? `status of ${status}` : status))
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => message.type() === 'error' && !isExpected(message.text()) && errors.push(message.text()))
  await signIn(context, page)
  await page.getByRole('navigation', { name: /^(Pages|Main pages)$/ }).waitFor()
  if (path !== '/') await page.goto(env.server.url + path)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await check(page)
  await context.close()
  assert.deepEqual(errors, [])
}

/** Signs in: with the cookie of a real server, whose sign-in link works once, or with the link of the mock. */
async function signIn(context, page) {
  const { url, session, signInUrl } = env.server
  if (session) {
    const [name, value] = session.split('=')
    await context.addCookies([{ name, value, url }])
  }
  await page.goto(session ? url : signInUrl)
}

/** Asserts that a page does not scroll horizontally and is accessible, and takes a screenshot. */
export async function assertLayout(page, name) {
  const { width } = page.viewportSize()
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, `${name} scrolls horizontally`)
  await screenshot(page, name)
  await assertAccessible(page)
}

/** Asserts WCAG 2 A and AA, including contrast, and that axe's best practices have no serious or moderate finding. */
export async function assertAccessible(page) {
  await page.emulateMedia({ reducedMotion: 'reduce' })
  await page.evaluate(AXE)
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }),
  )
  const found = violations.filter(({ impact }) => impact !== 'minor').flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
  )
  assert.deepEqual(found, [])
}

/** Sends a request to the API with the secret key and returns the response body. */
export async function request(method, path, body) {
  const response = await fetch(env.server.url + path, {
    method,
    headers: { Authorization: `Bearer ${env.server.secretKey}`, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`)
  return text ? JSON.parse(text) : undefined
}

/** Waits for a condition that no single element shows. */
export async function waitUntil(page, holds, withinMs = 8_000) {
  for (const end = Date.now() + withinMs; Date.now() < end; await page.waitForTimeout(100)) {
    if (await holds()) return
  }
  assert.fail(`condition not met within ${withinMs} ms: ${holds}`)
}

export async function screenshot(page, name) {
  if (!SHOTS) return
  mkdirSync(SHOTS, { recursive: true })
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: join(SHOTS, `${name}.png`) })
  await page.screenshot({ path: join(SHOTS, `${name}-whole.png`), fullPage: true })
}

/** True for a real server, which serves the demo game and keeps the data of earlier tests. */
export const isRealServer = Boolean(process.env.PLAYMETER_URL)

async function chooseServer() {
  const { PLAYMETER_URL, PLAYMETER_SESSION, PLAYMETER_PUBLIC_KEY, PLAYMETER_SECRET_KEY } = process.env
  if (!PLAYMETER_URL) return { publicKey: PUBLIC_KEY, secretKey: SECRET_KEY, ...(await startMock()) }
  return {
    url: PLAYMETER_URL.replace(/\/$/, ''),
    session: PLAYMETER_SESSION,
    publicKey: PLAYMETER_PUBLIC_KEY,
    secretKey: PLAYMETER_SECRET_KEY,
    close() {},
  }
}
