/** Tests of the Live page. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { assertLayout, assertAccessible, withPage, PHONE, screenshot, waitUntil, setup, VIEWPORTS, env } from './harness.mjs'

const CARDS = [
  'Players online',
  'Events per second',
  'Ingestion today',
  'Events per minute',
  'Top events',
  'Recent events',
  'Countries',
]

/** From the response to the POST until the event is visible. */
const SEEN_WITHIN_MS = 1_000

setup()

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the page fits and is accessible on a ${theme} ${device}`, async () => {
    await withLivePage({ theme, viewport }, async (page) => {
      await post({ event: 'first_look', player: 'ann', value: 3 })
      await page.getByRole('cell', { name: 'first_look' }).first().waitFor()
      await assertCardsVisible(page)
      await assertLayout(page, `live-${theme}-${device}`)
    })
  })
}

test('a posted event appears in the list within a second and updates the numbers', async () => {
  await withLivePage({}, async (page) => {
    const event = `posted_${Date.now()}`
    const received = await numberOf(page, 'received')
    const receipt = await post({ event, player: 'ann', country: 'FR', value: 3 })
    assert.equal(receipt.accepted, 1)
    const row = page.getByRole('row').filter({ hasText: event })
    await row.waitFor({ timeout: SEEN_WITHIN_MS })
    assert.match(await row.innerText(), /ann[\s\S]*FR[\s\S]*3[\s\S]*accepted/)
    await waitUntil(page, async () => (await numberOf(page, 'received')) > received)
    await waitUntil(page, async () => (await numberOf(page, 'rate')) > 0)
  })
})

test('a rejected event is shown with its reason', async () => {
  await withLivePage({}, async (page) => {
    await page.getByLabel('Rejected only').check()
    const receipt = await post({ event: `x${Date.now()}`.repeat(30) })
    assert.equal(receipt.results[0].reason, 'event_name_too_long')
    const row = page.getByRole('row').filter({ hasText: 'event name too long' }).first()
    await row.waitFor({ timeout: SEEN_WITHIN_MS })
    assert.match(await row.innerText(), /invalid/)
  })
})

test('the chart of the last two minutes advances', async () => {
  await withLivePage({}, async (page) => {
    const chart = page.locator('section', { hasText: 'Events per second' }).locator('canvas')
    const picture = () => chart.evaluate((canvas) => canvas.toDataURL())
    await post({ event: 'wave', player: 'bo' })
    const first = await picture()
    await waitUntil(page, async () => (await picture()) !== first)
  })
})

test('the list does not change while it is paused', async () => {
  await withLivePage({}, async (page) => {
    const event = `paused_${Date.now()}`
    await post({ event: 'before_pause', player: 'ann' })
    await page.getByRole('cell', { name: 'before_pause' }).first().waitFor()
    await page.getByRole('button', { name: 'Recent events: pause' }).click()
    await post({ event, player: 'ann' })
    await page.getByText(/Paused, \d+ new/).waitFor()
    assert.equal(await page.getByRole('row').filter({ hasText: event }).count(), 0)
    await page.getByRole('button', { name: 'Recent events: resume' }).click()
    await page.getByRole('row').filter({ hasText: event }).waitFor()
  })
})

test('every chart has a table and a CSV file', async () => {
  await withLivePage({}, async (page) => {
    for (const card of CARDS.slice(0, 4)) {
      await page.getByRole('button', { name: `${card}: view as table` }).click()
      await page.getByRole('region', { name: `${card}, table` }).waitFor()
    }
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Events per minute: download CSV' }).click(),
    ])
    const lines = readFileSync(await file.path(), 'utf8').split('\r\n')
    assert.equal(lines[0], 'Minute,Events')
    assert.equal(lines.length, 62)
  })
})

test('a test event can be sent from the page', async () => {
  await withLivePage({}, async (page) => {
    const card = page.getByRole('heading', { name: /Send (a test|your first) event/ })
    if (!(await card.isVisible())) await page.getByRole('button', { name: 'Send test event' }).click()
    assert.match(await page.getByLabel('Command').innerText(), new RegExp(env.server.publicKey))
    await page.getByRole('button', { name: 'Send event', exact: true }).click()
    await page.getByText('Accepted. See Recent events').waitFor()
    await page.getByRole('row').filter({ hasText: 'hello' }).first().waitFor()
  })
})

test('the theme is switched by keyboard and survives a reload', async () => {
  await withLivePage({ theme: 'light' }, async (page) => {
    await page.getByRole('button', { name: 'Switch to dark theme' }).press('Enter')
    const scheme = () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme)
    assert.equal(await scheme(), 'dark')
    await page.reload()
    assert.equal(await scheme(), 'dark')
    await page.getByRole('button', { name: 'Switch to light theme' }).waitFor()
  })
})

test('without a session the page explains where the sign-in link is', async () => {
  const page = await env.browser.newPage({ viewport: PHONE })
  await page.goto(env.server.url)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await assertAccessible(page)
  await screenshot(page, 'sign-in')
  await page.getByLabel('Sign-in link or token').fill('no token here')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
  await page.close()
})

async function withLivePage(view, check) {
  await withPage('/', view, async (page) => {
    await page.getByText('Connected').waitFor()
    await check(page)
  })
}

async function assertCardsVisible(page) {
  for (const name of CARDS) {
    const card = page.getByRole('region', { name, exact: true }).first()
    await card.scrollIntoViewIfNeeded()
    const box = await card.boundingBox()
    const { width } = page.viewportSize()
    assert.ok(box && box.x >= 0 && box.x + box.width <= width, `${name} does not fit`)
    assert.ok(box.height > 80, `${name} is empty`)
    assert.match(await card.innerText(), /as of \d\d:\d\d:\d\d/, `${name} does not show its time`)
  }
}

async function post(event) {
  const response = await fetch(`${env.server.url}/v1/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${env.server.publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(event),
  })
  assert.equal(response.status, 202)
  return response.json()
}

async function numberOf(page, name) {
  const text = await page.locator(`[data-number="${name}"]`).innerText()
  return Number(text.replaceAll(',', ''))
}
