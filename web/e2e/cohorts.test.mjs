/** Tests of the Cohorts page against a server: editor with live size, list, freezing and deletion. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { sendHistory } from './seed-history.mjs'
import { run } from './seed.mjs'
import { assertLayout, isRealServer, request, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const EVENT = `buy_${run}`
const NAME = `payers-${run}`

setup(async () => {
  if (!isRealServer) return
  await sendHistory(Array.from({ length: 12 }, (_, i) => ({ event: EVENT, player: `payer-${run}-${i}`, country: i < 5 ? 'FR' : 'DE', hoursAgo: 3 })))
})

test('a cohort is made of a condition, with its size while it is edited', { skip }, async () => {
  await withPage('/cohorts', {}, async (page) => {
    await page.getByRole('link', { name: 'New cohort' }).click()
    await page.getByLabel('Name', { exact: true }).fill(NAME)
    await page.getByRole('button', { name: 'Condition on events' }).click()
    await page.getByRole('button', { name: 'Event of condition 1' }).click()
    await page.getByRole('combobox', { name: 'Event of condition 1' }).fill(EVENT)
    await page.getByRole('option', { name: EVENT }).first().click()
    await page.getByRole('status').getByText('12 players now').waitFor()
    await page.getByLabel('at least').fill('2')
    await page.getByLabel('at least').blur()
    await page.getByRole('status').getByText('0 players now').waitFor()
    await page.getByLabel('at least').fill('1')
    await page.getByLabel('at least').blur()
    await page.getByRole('status').getByText('12 players now').waitFor()
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await page.getByRole('row', { name: new RegExp(NAME) }).getByText('Condition').waitFor()
  })
  const saved = await request('GET', `/v1/cohorts/${NAME}`)
  assert.deepEqual(saved.condition, { event: EVENT, at_least: 1, within_days: 30 })
})

test('a cohort is changed, and its players are listed', { skip }, async () => {
  await withPage(`/cohorts?cohort=${NAME}`, {}, async (page) => {
    await page.getByRole('status').getByText('12 players now').waitFor()
    await page.getByLabel('Description').fill('Bought something')
    await page.getByRole('button', { name: 'Save cohort' }).click()
    await waitForSize(12)
    await page.getByRole('row', { name: /Bought something/ }).getByRole('link', { name: NAME }).click()
    await page.getByRole('link', { name: 'Players', exact: true }).last().click()
    await page.getByText('12 players.').waitFor()
  })
})

test('a cohort is frozen as a list that stays', { skip }, async () => {
  await waitForSize(12)
  await withPage(`/cohorts?cohort=${NAME}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Freeze as list…' }).click()
    await page.getByRole('button', { name: 'Create list' }).click()
    await page.getByRole('row', { name: new RegExp(`${NAME}-20`) }).getByText('List').waitFor()
  })
  const { cohorts } = await request('GET', '/v1/cohorts')
  const list = cohorts.find(({ name }) => name.startsWith(`${NAME}-20`))
  assert.equal((await request('GET', `/v1/cohorts/${list.name}`)).players.length, 12)
})

test('the filters of a funnel offer the cohort', { skip }, async () => {
  await withPage(`/funnels?s=${EVENT}&s=${EVENT}`, {}, async (page) => {
    const filters = page.getByRole('group', { name: 'Filters', exact: true })
    await filters.getByRole('button', { name: 'Add a filter' }).click()
    await page.getByRole('option', { name: /^Cohort/ }).click()
    await filters.getByRole('button', { name: /cohort, value/i }).click()
    await page.getByRole('option', { name: NAME, exact: true }).click()
    await page.waitForURL((url) => url.searchParams.get('where') === `cohort,=,${NAME}`)
    await page.getByText('of 12 players did all 2 steps').waitFor()
  })
})

/** Waits until the server has found the players for the first time. */
async function waitForSize(size) {
  for (let i = 0; i < 100; i += 1) {
    if ((await request('GET', `/v1/cohorts/${NAME}`)).size === size) return
    await new Promise((done) => setTimeout(done, 1_000))
  }
  assert.fail('the players of the cohort were not found')
}

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the cohorts pages fit and are accessible on a ${theme} ${device}`, { skip }, async () => {
    await withPage('/cohorts', { theme, viewport }, async (page) => {
      await page.getByRole('link', { name: NAME, exact: true }).waitFor()
      await assertLayout(page, `cohorts-${theme}-${device}`)
    })
    await withPage(`/cohorts?cohort=${NAME}`, { theme, viewport }, async (page) => {
      await page.getByRole('status').getByText('12 players now').waitFor()
      await assertLayout(page, `cohort-${theme}-${device}`)
    })
  })
}

test('a cohort is deleted after a confirmation', { skip }, async () => {
  await withPage(`/cohorts?cohort=${NAME}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Delete…' }).click()
    await page.getByRole('button', { name: 'Delete cohort' }).click()
    await waitUntil(page, async () => (await page.getByRole('link', { name: NAME, exact: true }).count()) === 0)
  })
})
