/** The Live page in a real browser; see `world.mjs` for which server. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { isWholeAndReadable, nothingIsHardToRead, onPage, PHONE, shoot, until, useWorld, VIEWS, world } from './world.mjs'

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

useWorld()

for (const [theme, device, viewport] of VIEWS) {
  test(`the page is whole, readable and quiet on a ${theme} ${device}`, async () => {
    await onLivePage({ theme, viewport }, async (page) => {
      await post({ event: 'first_look', player: 'ann', value: 3 })
      await page.getByRole('cell', { name: 'first_look' }).first().waitFor()
      await allCardsAreVisible(page)
      await isWholeAndReadable(page, `live-${theme}-${device}`)
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
    assert.match(await page.getByLabel('Command').innerText(), new RegExp(world.server.publicKey))
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
  const page = await world.browser.newPage({ viewport: PHONE })
  await page.goto(world.server.url)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  await nothingIsHardToRead(page)
  await shoot(page, 'sign-in')
  await page.getByLabel('Sign-in link or token').fill('no token here')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('alert').waitFor()
  await page.close()
})

async function onLivePage(view, check) {
  await onPage('/', view, async (page) => {
    await page.getByText('Connected').waitFor()
    await check(page)
  })
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

async function post(event) {
  const answer = await fetch(`${world.server.url}/v1/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${world.server.publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(event),
  })
  assert.equal(answer.status, 202)
  return answer.json()
}

async function numberOf(page, name) {
  const text = await page.locator(`[data-number="${name}"]`).innerText()
  return Number(text.replaceAll(',', ''))
}
