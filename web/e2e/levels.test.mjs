/** Tests of the Levels page: difficulty and moderation. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { played, run, seedLevel } from './seed.mjs'
import { request, withPage, setup, waitUntil } from './harness.mjs'

setup()

const itemOf = (page, name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

test('a level shows its difficulty and updates its counters', async () => {
  const name = `Hard one ${run}`
  const id = await seedLevel(name)
  await withPage('/levels?mode=newest', {}, async (page) => {
    const item = itemOf(page, name).first()
    await item.getByRole('cell', { name: '20', exact: true }).waitFor()
    assert.match(await item.innerText(), /Too hard\?[\s\S]*20\s+15%\s+155%\s+45%/)
    await page.getByRole('link', { name, exact: true }).first().click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    assert.match(await page.getByLabel('The level’s data').innerText(), /#\.\.#/)
    await played(id, { start: 5, win: 5 })
    await page.getByText('25 starts').waitFor({ timeout: 10_000 })
  })
})

test('the table is sorted by a column and the order is in the address', async () => {
  const [easy, hard] = [`Easy to sort ${run}`, `Hard to sort ${run}`]
  const ids = [await seedLevel(easy), await seedLevel(hard)]
  await played(ids[0], { start: 80, win: 80 })
  const names = async (page) => (await page.getByRole('row').locator('th a').allInnerTexts()).filter((name) => name.includes('to sort'))
  await withPage(`/levels?mode=newest&player=maker-${run}`, {}, async (page) => {
    await waitUntil(page, async () => (await itemOf(page, easy).innerText()).includes('100'))
    await page.getByRole('button', { name: 'Won' }).click()
    await waitUntil(page, async () => (await names(page)).join() === [easy, hard].join())
    assert.equal(await page.getByRole('columnheader', { name: 'Won' }).getAttribute('aria-sort'), 'descending')
    await page.getByRole('button', { name: 'Won' }).click()
    await waitUntil(page, async () => (await names(page)).join() === [hard, easy].join())
    assert.equal(new URL(page.url()).searchParams.get('sort'), 'wins')
    await page.reload()
    await waitUntil(page, async () => (await names(page)).join() === [hard, easy].join())
  })
})

test('levels are filtered by author and field', async () => {
  const name = `Found ${run}`
  await seedLevel(name)
  await withPage('/levels', {}, async (page) => {
    await page.getByLabel('Author').fill('nobody')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await page.getByText('No levels match').waitFor()
    await page.getByLabel('Author').fill(`maker-${run}`)
    await page.getByLabel('Field', { exact: true }).fill('size')
    await page.getByLabel('Field value').fill('small')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await itemOf(page, name).first().waitFor()
  })
})

test('one flagged level is kept and another is deleted', async () => {
  const [kept, gone] = [`Kept ${run}`, `Gone ${run}`]
  const ids = [await seedLevel(kept), await seedLevel(gone)]
  await withPage('/levels', {}, async (page) => {
    const queue = page.getByRole('region', { name: 'Flagged levels' })
    await queue.getByText('it cannot be won').first().waitFor()
    await queue.getByRole('button', { name: `Keep ${kept}` }).click()
    await queue.getByRole('link', { name: kept }).waitFor({ state: 'detached' })
    await queue.getByRole('button', { name: `Delete… ${gone}` }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await queue.getByRole('link', { name: gone }).waitFor({ state: 'detached' })
  })
  const states = await Promise.all(ids.map(async (id) => (await request('GET', `/v1/levels/${id}`)).state))
  assert.deepEqual(states, ['published', 'removed'])
})

test('a level is unpublished and published again', async () => {
  const id = await seedLevel(`Back ${run}`)
  await withPage(`/levels?level=${id}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Unpublish' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Unpublish' }).click()
    await page.getByRole('button', { name: 'Publish level', exact: true }).waitFor()
    assert.equal((await request('GET', `/v1/levels/${id}`)).state, 'draft')
    await page.getByRole('button', { name: 'Publish level', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Publish level', exact: true }).click()
    await page.getByRole('button', { name: 'Unpublish' }).waitFor()
    assert.equal((await request('GET', `/v1/levels/${id}`)).state, 'published')
  })
})
