/** Tests of the Players page against a server: search, history, ban, export and erasure. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { sendHistory } from './seed-history.mjs'
import { run } from './seed.mjs'
import { assertLayout, isRealServer, request, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const ANN = `hist-ann-${run}`
/** An id that needs escaping in URLs and in HTML. */
const ODD = `hist-<b>/ü?&-${run}`

setup(async () => {
  if (!isRealServer) return
  const visit = (player, session, hoursAgo) => [
    { event: 'level_start', player, session, level: '3', country: 'FR', hoursAgo },
    { event: 'purchase', player, session, value: 4.99, props: { sku: `gems-${run}` }, hoursAgo: hoursAgo - 0.5 },
  ]
  await sendHistory([...visit(ANN, `a1-${run}`, 30), ...visit(ANN, `a2-${run}`, 2), ...visit(ODD, `o1-${run}`, 3)])
})

const timeline = (page) => page.getByRole('region', { name: 'Timeline' })

test('the history of a player is found in three clicks', { skip }, async () => {
  await withPage('/', {}, async (page) => {
    await page.getByRole('link', { name: 'Players' }).first().click()
    await page.getByRole('searchbox', { name: 'Search players by id' }).fill(`ann-${run}`)
    await page.getByRole('link', { name: ANN }).click()
    await timeline(page).getByText('All 4 events.').waitFor()
    assert.equal(await timeline(page).getByRole('region', { name: /^Session/ }).count(), 2)
    await timeline(page).locator('summary').first().click()
    await timeline(page).getByText(`"sku": "gems-${run}"`).first().waitFor()
  })
})

test('the timeline shows one event, and the URL holds it', { skip }, async () => {
  await withPage(`/players?player=${ANN}`, {}, async (page) => {
    await page.getByRole('region', { name: 'Events by name' }).getByRole('link', { name: /purchase/ }).click()
    await page.waitForURL(/event=purchase/)
    await waitUntil(page, async () => (await timeline(page).locator('summary').count()) === 2)
    await page.goBack()
    await waitUntil(page, async () => (await timeline(page).locator('summary').count()) === 4)
  })
})

test('players are found by a property', { skip }, async () => {
  await withPage(`/players?where=props.sku,%3D,gems-${run}`, {}, async (page) => {
    await page.getByText('2 players.').waitFor()
    await page.getByRole('link', { name: ODD }).click()
    await page.getByRole('heading', { level: 1, name: ODD }).waitFor()
    await timeline(page).getByText('All 2 events.').waitFor()
  })
})

test('a search without a match says what to do, and typing does not fill the history', { skip }, async () => {
  await withPage('/players', {}, async (page) => {
    const before = await page.evaluate(() => history.length)
    await page.getByRole('searchbox', { name: 'Search players by id' }).fill(`none-${run}`)
    await page.getByText('No player in this period matches').waitFor()
    assert.equal(await page.evaluate(() => history.length), before)
    assert.match(page.url(), /search=none-/)
  })
})

test('a player is banned, and the ban is lifted', { skip }, async () => {
  await withPage(`/players?player=${ANN}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Ban…' }).click()
    await page.getByLabel('Reason').fill('a bot')
    await page.getByRole('button', { name: 'Ban player' }).click()
    await page.getByText('Banned from leaderboards: a bot').waitFor()
    await page.getByRole('button', { name: 'Lift ban…' }).click()
    await page.getByRole('button', { name: 'Lift ban', exact: true }).click()
    await page.getByRole('button', { name: 'Ban…' }).waitFor()
  })
})

test('the data of a player is downloaded', { skip }, async () => {
  await withPage(`/players?player=${ANN}`, {}, async (page) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export data' }).click()])
    const exported = JSON.parse(readFileSync(await download.path(), 'utf8'))
    assert.equal(exported.events.length, 4)
    assert.equal(exported.complete, true)
  })
})

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the players pages fit and are accessible on a ${theme} ${device}`, { skip }, async () => {
    await withPage(`/players?search=hist-`, { theme, viewport }, async (page) => {
      await page.getByRole('link', { name: ANN }).waitFor()
      await assertLayout(page, `players-${theme}-${device}`)
    })
    await withPage(`/players?player=${ANN}`, { theme, viewport }, async (page) => {
      await timeline(page).getByText('All 4 events.').waitFor()
      await timeline(page).locator('summary').first().click()
      await assertLayout(page, `player-${theme}-${device}`)
    })
  })
}

test('a player is erased after the id is typed', { skip }, async () => {
  await withPage(`/players?player=${encodeURIComponent(ODD)}`, { expected: [404] }, async (page) => {
    await page.getByRole('button', { name: 'Erase…' }).click()
    const confirm = page.getByRole('button', { name: 'Erase player' })
    assert.equal(await confirm.isDisabled(), true)
    await page.getByLabel('Type the player’s id to confirm').fill(ODD)
    await confirm.click()
    await page.getByText('The player is erased').waitFor()
    const receipt = await page.getByRole('status').locator('code').innerText()
    assert.equal((await request('GET', `/v1/erasures/${receipt}`)).kind, 'erasure')
    await page.reload()
    await page.getByRole('alert').waitFor()
  })
})
