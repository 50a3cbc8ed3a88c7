/** Tests of the Levels page: difficulty and moderation. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { played, run, seedLevel } from './seed.mjs'
import { request, withPage, setup } from './harness.mjs'

setup()

const itemOf = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })

test('a level shows its difficulty and updates its counters', async () => {
  const name = `Hard one ${run}`
  const id = await seedLevel(name)
  await withPage('/levels?mode=newest', {}, async (page) => {
    const item = itemOf(page, name).first()
    await item.getByText('20 starts').waitFor()
    assert.match(await item.innerText(), /Too hard\?[\s\S]*Won\s*15%[\s\S]*Retried\s*155%[\s\S]*Quit\s*45%/)
    await page.getByRole('link', { name, exact: true }).first().click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    assert.match(await page.getByLabel('The level’s data').innerText(), /#\.\.#/)
    await played(id, { start: 5, win: 5 })
    await page.getByText('25 starts').waitFor({ timeout: 10_000 })
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
