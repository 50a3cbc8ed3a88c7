/** Tests of the Leaderboards page: scores by window, live updates, quarantine, bans, seasons and settings. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run, seedBoard, submit, submitAtOnce } from './seed.mjs'
import { request, withPage, waitUntil, setup } from './harness.mjs'

const table = `board-${run}`
const open = `open-${run}`
const rowOf = (page, name) => page.getByRole('row').filter({ hasText: name })

setup(async () => {
  await seedBoard(table)
  await request('PUT', `/v1/boards/${open}`, { title: 'Open to all' })
  await submit(open, { player: 'ann', name: 'Ann', score: 10 })
})

test('a new score appears within a second and moves the others down', async () => {
  await withPage(`/boards?board=${open}`, {}, async (page) => {
    await rowOf(page, 'Ann').waitFor()
    await submit(open, { player: 'bo', name: 'Bo', score: 20 })
    await rowOf(page, 'Bo').waitFor({ timeout: 1_000 })
    assert.match(await rowOf(page, 'Ann').innerText(), /^2\s/)
  })
})

test('scores are listed by window, page, field and player', async () => {
  await withPage(`/boards?board=${table}`, {}, async (page) => {
    await rowOf(page, 'p-0').waitFor()
    await page.getByRole('link', { name: 'Next' }).click()
    await rowOf(page, 'p-29').waitFor()
    await page.getByRole('link', { name: 'Today' }).click()
    await page.getByRole('heading', { level: 2, name: 'Today' }).waitFor()
    await rowOf(page, 'p-0').waitFor()
    await page.getByLabel('car', { exact: true }).fill('blue')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await page.getByText('15 scores').waitFor()
    await page.getByRole('button', { name: 'Clear filters' }).click()
    await page.getByLabel('Around player').fill('p-27')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await rowOf(page, 'p-27').getByText('match', { exact: true }).waitFor()
    assert.match(await rowOf(page, 'p-27').innerText(), /^28\s[\s\S]*973/)
    await page.getByLabel('Around player').fill('nobody')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await page.getByText('nobody has no score in this window').waitFor()
    await page.goBack()
    await rowOf(page, 'p-27').getByText('match', { exact: true }).waitFor()
  })
})

test('a quarantined score is accepted or rejected', async () => {
  await withPage(`/boards?board=${table}`, {}, async (page) => {
    const card = page.getByRole('region', { name: 'Quarantine' })
    await card.getByText('Play time too short').waitFor()
    await card.getByRole('button', { name: 'Accept the score of Eve' }).click()
    await card.getByText('No scores to review').waitFor()
    await rowOf(page, '99,999').waitFor()
    await submitAtOnce(table, { player: 'mallory', name: 'Mallory', score: 88_888 })
    await card.getByRole('button', { name: 'Reject the score of Mallory' }).click({ timeout: 8_000 })
    await card.getByText('No scores to review').waitFor()
    assert.equal(await rowOf(page, 'Mallory').count(), 0)
  })
})

test('a banned player is hidden until the ban is lifted', async () => {
  const player = `rude-${run}`
  await submit(open, { player, name: 'Rude', score: 15 })
  await withPage(`/boards?board=${open}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Ban Rude' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('rude words')
    await dialog.getByRole('button', { name: 'Ban' }).click()
    await rowOf(page, 'Rude').waitFor({ state: 'detached' })
    await page.getByText(`${player} is banned.`).waitFor()
    await page.getByLabel('Player', { exact: true }).fill(player)
    await page.getByRole('button', { name: 'Lift ban' }).click()
    await rowOf(page, 'Rude').waitFor()
  })
})

test('a new season starts empty after a confirmation', async () => {
  const name = `season-${run}`
  await submit(name, { player: 'ann', score: 1 })
  const { season } = await request('GET', `/v1/boards/${name}`)
  await withPage(`/boards?board=${name}&window=season`, {}, async (page) => {
    await rowOf(page, 'ann').waitFor()
    await page.getByRole('button', { name: 'Start new season' }).click()
    await page.getByRole('button', { name: `Start season ${season + 1}` }).click()
    await page.getByText('No scores in this window').waitFor()
    assert.equal((await request('GET', `/v1/boards/${name}`)).season, season + 1)
  })
})

test('a leaderboard is created and edited, and errors are shown at their fields', async () => {
  const name = `made-${run}`
  await withPage('/boards', { expected: [409] }, async (page) => {
    await page.getByRole('link', { name: 'New leaderboard' }).click()
    await page.getByRole('button', { name: 'Create leaderboard' }).click()
    await page.getByText('Use 1 to 100 letters').waitFor()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Display name').fill('Fastest lap')
    await page.getByLabel('Order').selectOption({ label: 'Lowest first' })
    await page.getByLabel('Season').uncheck()
    await page.getByLabel('Decimals').fill('2')
    await page.getByRole('button', { name: 'Create leaderboard' }).click()
    await page.getByRole('heading', { level: 1, name: 'Fastest lap' }).waitFor()
    const board = await request('GET', `/v1/boards/${name}`)
    assert.deepEqual([board.order, board.decimals, board.windows.includes('season')], ['asc', 2, false])
    await submit(name, { player: 'ann', name: 'Ann', score: 61.5 })
    await page.getByText('61.5').waitFor()
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByLabel('Order').selectOption({ label: 'Highest first' })
    await page.getByRole('button', { name: 'Save settings' }).click()
    await waitUntil(page, async () => (await page.getByLabel('Order').getAttribute('aria-invalid')) === 'true')
    await page.getByLabel('Order').selectOption({ label: 'Lowest first' })
    await page.getByLabel('Display name').fill('Lap')
    await page.getByRole('button', { name: 'Save settings' }).click()
    await page.getByRole('heading', { level: 1, name: 'Lap', exact: true }).waitFor()
    await waitUntil(page, async () => (await request('GET', `/v1/boards/${name}`)).title === 'Lap')
  })
})
