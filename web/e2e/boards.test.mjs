/** The Boards page: rows by window, live; what waits; bans; seasons; settings. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { run, seedBoard, submit, submitAtOnce } from './seed.mjs'
import { ask, onPage, until, useWorld } from './world.mjs'

const table = `board-${run}`
const open = `open-${run}`
const rowOf = (page, name) => page.getByRole('row').filter({ hasText: name })

useWorld(async () => {
  await seedBoard(table)
  await ask('PUT', `/v1/boards/${open}`, { title: 'Open to all' })
  await submit(open, { player: 'ann', name: 'Ann', score: 10 })
})

test('a new score is on the board within a second, and another one takes its place', async () => {
  await onPage(`/boards?board=${open}`, {}, async (page) => {
    await rowOf(page, 'Ann').waitFor()
    await submit(open, { player: 'bo', name: 'Bo', score: 20 })
    await rowOf(page, 'Bo').waitFor({ timeout: 1_000 })
    assert.match(await rowOf(page, 'Ann').innerText(), /^2\s/)
  })
})

test('rows are found by window, field and player, leaf by leaf', async () => {
  await onPage(`/boards?board=${table}`, {}, async (page) => {
    await rowOf(page, 'p-0').waitFor()
    await page.getByRole('link', { name: 'Next' }).click()
    await rowOf(page, 'p-29').waitFor()
    await page.getByRole('link', { name: 'Today' }).click()
    await page.getByRole('heading', { level: 2, name: 'Today' }).waitFor()
    await rowOf(page, 'p-0').waitFor()
    await page.getByLabel('car', { exact: true }).fill('blue')
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText('15 rows').waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByLabel('Around the player').fill('p-27')
    await page.getByRole('button', { name: 'Find' }).click()
    await rowOf(page, 'p-27').getByText('found').waitFor()
    assert.match(await rowOf(page, 'p-27').innerText(), /^28\s[\s\S]*973/)
    await page.getByLabel('Around the player').fill('nobody')
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText('nobody has no score here').waitFor()
    await page.goBack()
    await rowOf(page, 'p-27').getByText('found').waitFor()
  })
})

test('a score that waits is accepted with its evidence in sight', async () => {
  await onPage(`/boards?board=${table}`, {}, async (page) => {
    const card = page.getByRole('region', { name: 'Quarantine' })
    await card.getByText('Played too briefly').waitFor()
    await card.getByRole('button', { name: 'Accept the score of Eve' }).click()
    await card.getByText('No score waits').waitFor()
    await rowOf(page, '99,999').waitFor()
    await submitAtOnce(table, { player: 'mallory', name: 'Mallory', score: 88_888 })
    await card.getByRole('button', { name: 'Reject the score of Mallory' }).click({ timeout: 8_000 })
    await card.getByText('No score waits').waitFor()
    assert.equal(await rowOf(page, 'Mallory').count(), 0)
  })
})

test('a banned player vanishes, and is back when the ban is lifted', async () => {
  const player = `rude-${run}`
  await submit(open, { player, name: 'Rude', score: 15 })
  await onPage(`/boards?board=${open}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Ban Rude' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Reason').fill('rude words')
    await dialog.getByRole('button', { name: 'Ban' }).click()
    await rowOf(page, 'Rude').waitFor({ state: 'detached' })
    await page.getByText(`${player} is banned.`).waitFor()
    await page.getByLabel('Player', { exact: true }).fill(player)
    await page.getByRole('button', { name: 'Lift the ban' }).click()
    await rowOf(page, 'Rude').waitFor()
  })
})

test('a new season begins empty, after a question', async () => {
  const name = `season-${run}`
  await submit(name, { player: 'ann', score: 1 })
  const { season } = await ask('GET', `/v1/boards/${name}`)
  await onPage(`/boards?board=${name}&window=season`, {}, async (page) => {
    await rowOf(page, 'ann').waitFor()
    await page.getByRole('button', { name: 'New season' }).click()
    await page.getByRole('button', { name: `Begin season ${season + 1}` }).click()
    await page.getByText('No scores here').waitFor()
    assert.equal((await ask('GET', `/v1/boards/${name}`)).season, season + 1)
  })
})

test('a board is made and changed; what cannot change is said at its field', async () => {
  const name = `made-${run}`
  await onPage('/boards', { expected: [409] }, async (page) => {
    await page.getByRole('link', { name: 'New board' }).click()
    await page.getByRole('button', { name: 'Make the board' }).click()
    await page.getByText('1 to 100 letters').waitFor()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await page.getByLabel('Title').fill('Fastest lap')
    await page.getByLabel('Order').selectOption({ label: 'Lowest first' })
    await page.getByLabel('Season').uncheck()
    await page.getByLabel('Decimals').fill('2')
    await page.getByRole('button', { name: 'Make the board' }).click()
    await page.getByRole('heading', { level: 1, name: 'Fastest lap' }).waitFor()
    const board = await ask('GET', `/v1/boards/${name}`)
    assert.deepEqual([board.order, board.decimals, board.windows.includes('season')], ['asc', 2, false])
    await submit(name, { player: 'ann', name: 'Ann', score: 61.5 })
    await page.getByText('61.50').waitFor()
    await page.getByRole('link', { name: 'Settings' }).click()
    await page.getByLabel('Order').selectOption({ label: 'Highest first' })
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByText(/cannot change while the board has rows/).waitFor()
    await page.getByLabel('Order').selectOption({ label: 'Lowest first' })
    await page.getByLabel('Title').fill('Lap')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('heading', { level: 1, name: 'Lap', exact: true }).waitFor()
    await until(page, async () => (await ask('GET', `/v1/boards/${name}`)).title === 'Lap')
  })
})
