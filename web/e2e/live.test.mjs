/**
 * The Live page in a real browser, against a running server.
 *
 * PLAYMETER_URL, PLAYMETER_SIGN_IN_URL and PLAYMETER_PUBLIC_KEY say which (they are in
 * `bootstrap.json`); without them the mock is started. PLAYMETER_SHOTS names a folder for pictures,
 * CHROMIUM the browser. `npm run build` comes first when the mock is used.
 */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { chromium } from 'playwright-core'
import { PUBLIC_KEY, startMock } from '../mock/server.mjs'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const SHOTS = process.env.PLAYMETER_SHOTS
const DESKTOP = { width: 1440, height: 900 }
const PHONE = { width: 390, height: 844 }
const VIEWS = [
  ['dark', 'desktop', DESKTOP],
  ['light', 'desktop', DESKTOP],
  ['dark', 'phone', PHONE],
  ['light', 'phone', PHONE],
]
const CARDS = [
  'Players online',
  'Events per second',
  'Every event accounted for',
  'Events by the minute',
  'Top events',
  'Last events',
  'Countries',
]

/** From the answer to the post until it is on the screen. */
const SEEN_WITHIN_MS = 1_000

let browser
let server

before(async () => {
  server = await chooseServer()
  browser = await chromium.launch({
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
  await browser?.close()
  server?.close()
})

for (const [theme, device, viewport] of VIEWS) {
  test(`the page is whole, readable and quiet on a ${theme} ${device}`, async () => {
    await onLivePage({ theme, viewport }, async (page) => {
      await post({ event: 'first_look', player: 'ann', value: 3 })
      await page.getByRole('cell', { name: 'first_look' }).first().waitFor()
      await allCardsAreVisible(page)
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), viewport.width)
      await shoot(page, `live-${theme}-${device}`)
      await nothingIsHardToRead(page)
    })
  })
}

test('an event that is posted is in the list within a second, and the numbers move', async () => {
  await onLivePage({}, async (page) => {
    const event = `posted_${Date.now()}`
    const received = await numberOf(page, 'received')
    const receipt = await post({ event, player: 'ann', country: 'FR', value: 3 })
    assert.equal(receipt.accepted, 1)
    const row = page.getByRole('row').filter({ hasText: event })
    await row.waitFor({ timeout: SEEN_WITHIN_MS })
    assert.match(await row.innerText(), /ann[\s\S]*FR[\s\S]*3[\s\S]*accepted/)
    await until(page, async () => (await numberOf(page, 'received')) > received)
    await until(page, async () => (await numberOf(page, 'rate')) > 0)
  })
})

test('a refused event is shown with its reason', async () => {
  await onLivePage({}, async (page) => {
    await page.getByLabel('Refused only').check()
    const receipt = await post({ event: `x${Date.now()}`.repeat(30) })
    assert.equal(receipt.results[0].reason, 'event_name_too_long')
    const row = page.getByRole('row').filter({ hasText: 'event name too long' }).first()
    await row.waitFor({ timeout: SEEN_WITHIN_MS })
    assert.match(await row.innerText(), /invalid/)
  })
})

test('the chart of the last two minutes moves on', async () => {
  await onLivePage({}, async (page) => {
    const chart = page.locator('section', { hasText: 'Events per second' }).locator('canvas')
    const picture = () => chart.evaluate((canvas) => canvas.toDataURL())
    await post({ event: 'wave', player: 'bo' })
    const first = await picture()
    await until(page, async () => (await picture()) !== first)
  })
})

test('the list stands still while it is held', async () => {
  await onLivePage({}, async (page) => {
    const event = `held_${Date.now()}`
    await post({ event: 'before_hold', player: 'ann' })
    await page.getByRole('cell', { name: 'before_hold' }).first().waitFor()
    await page.getByRole('button', { name: 'Last events: hold' }).click()
    await post({ event, player: 'ann' })
    await page.getByText(/Held\. \d+ more since/).waitFor()
    assert.equal(await page.getByRole('row').filter({ hasText: event }).count(), 0)
    await page.getByRole('button', { name: 'Last events: go on' }).click()
    await page.getByRole('row').filter({ hasText: event }).waitFor()
  })
})

test('every chart has its table and its file', async () => {
  await onLivePage({}, async (page) => {
    for (const card of CARDS.slice(0, 4)) {
      await page.getByRole('button', { name: `${card}: view as table` }).click()
      await page.getByRole('region', { name: `${card}, table` }).waitFor()
    }
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Events by the minute: download CSV' }).click(),
    ])
    const lines = readFileSync(await file.path(), 'utf8').split('\r\n')
    assert.equal(lines[0], 'Minute,Events')
    assert.equal(lines.length, 62)
  })
})

test('an event can be sent from the page', async () => {
  await onLivePage({}, async (page) => {
    const card = page.getByRole('heading', { name: /Send (an|your first) event/ })
    if (!(await card.isVisible())) await page.getByRole('button', { name: 'Send an event' }).click()
    assert.match(await page.getByLabel('Command').innerText(), new RegExp(server.publicKey))
    await page.getByRole('button', { name: 'Send it from here' }).click()
    await page.getByText('Accepted. It is in the list').waitFor()
    await page.getByRole('row').filter({ hasText: 'hello' }).first().waitFor()
  })
})

test('the theme is switched by keyboard and remembered', async () => {
  await onLivePage({ theme: 'light' }, async (page) => {
    await page.getByRole('button', { name: 'Switch to dark theme' }).press('Enter')
    const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)
    assert.equal(await scheme(), 'dark')
    await page.reload()
    assert.equal(await scheme(), 'dark')
    await page.getByRole('button', { name: 'Switch to light theme' }).waitFor()
  })
})

test('who is not signed in is told where the link is', async () => {
  const page = await browser.newPage({ viewport: PHONE })
  await page.goto(server.url)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await nothingIsHardToRead(page)
  await shoot(page, 'sign-in')
  await page.getByLabel('Sign-in link or token').fill('no token here')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
  await page.close()
})

/** Opens the page signed in; whatever the browser complained of fails the test. */
async function onLivePage({ theme = 'dark', viewport = DESKTOP }, check) {
  const context = await browser.newContext({ viewport, colorScheme: theme, acceptDownloads: true })
  const page = await context.newPage()
  const complaints = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (said) => said.type() === 'error' && complaints.push(said.text()))
  await page.goto(server.signInUrl)
  await page.getByText('Connected').waitFor()
  await check(page)
  await context.close()
  assert.deepEqual(complaints, [])
}

async function allCardsAreVisible(page) {
  for (const name of CARDS) {
    const card = page.getByRole('region', { name, exact: true }).first()
    await card.scrollIntoViewIfNeeded()
    const box = await card.boundingBox()
    const { width } = page.viewportSize()
    assert.ok(box && box.x >= 0 && box.x + box.width <= width, `${name} does not fit`)
    assert.ok(box.height > 80, `${name} is empty`)
    assert.match(await card.innerText(), /as of \d\d:\d\d:\d\d/, `${name} does not say its time`)
  }
}

/** WCAG 2 A and AA, contrast among them, by axe. */
async function nothingIsHardToRead(page) {
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

async function post(event) {
  const answer = await fetch(`${server.url}/v1/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${server.publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(event),
  })
  assert.equal(answer.status, 202)
  return answer.json()
}

async function numberOf(page, name) {
  const text = await page.locator(`[data-number="${name}"]`).innerText()
  return Number(text.replaceAll(',', ''))
}

/** Waits for what no single element shows. */
async function until(page, holds, withinMs = 8_000) {
  for (const end = Date.now() + withinMs; Date.now() < end; await page.waitForTimeout(100)) {
    if (await holds()) return
  }
  assert.fail(`not within ${withinMs} ms: ${holds}`)
}

async function shoot(page, name) {
  if (!SHOTS) return
  mkdirSync(SHOTS, { recursive: true })
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: join(SHOTS, `${name}.png`) })
  await page.screenshot({ path: join(SHOTS, `${name}-whole.png`), fullPage: true })
}

async function chooseServer() {
  const { PLAYMETER_URL, PLAYMETER_SIGN_IN_URL, PLAYMETER_PUBLIC_KEY } = process.env
  if (!PLAYMETER_URL) return { publicKey: PUBLIC_KEY, ...(await startMock()) }
  return {
    url: PLAYMETER_URL.replace(/\/$/, ''),
    signInUrl: PLAYMETER_SIGN_IN_URL,
    publicKey: PLAYMETER_PUBLIC_KEY,
    close() {},
  }
}
