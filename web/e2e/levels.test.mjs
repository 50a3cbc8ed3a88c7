/** The Levels page: how hard levels are, and what moderators decide. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { played, run, seedLevel } from './seed.mjs'
import { ask, onPage, useWorld } from './world.mjs'

useWorld()

const itemOf = (page, name) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name, exact: true }) })

test('a level says how hard it is, and goes on counting', async () => {
  const name = `Hard one ${run}`
  const id = await seedLevel(name)
  await onPage('/levels?mode=newest', {}, async (page) => {
    const item = itemOf(page, name).first()
    await item.getByText('20 starts').waitFor()
    assert.match(await item.innerText(), /Too hard\?[\s\S]*Won\s*15%[\s\S]*Tried again\s*155%[\s\S]*Gave up\s*45%/)
    await page.getByRole('link', { name, exact: true }).first().click()
    await page.getByRole('heading', { level: 1, name }).waitFor()
    assert.match(await page.getByLabel('The level’s data').innerText(), /#\.\.#/)
    await played(id, { start: 5, win: 5 })
    await page.getByText('25 starts').waitFor({ timeout: 10_000 })
  })
})

test('levels are found by player and field', async () => {
  const name = `Found ${run}`
  await seedLevel(name)
  await onPage('/levels', {}, async (page) => {
    await page.getByLabel('By the player').fill('nobody')
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText('No level here').waitFor()
    await page.getByLabel('By the player').fill(`maker-${run}`)
    await page.getByLabel('Where the field').fill('size')
    await page.getByLabel('is', { exact: true }).fill('small')
    await page.getByRole('button', { name: 'Find' }).click()
    await itemOf(page, name).first().waitFor()
  })
})

test('a flagged level is kept, another removed for good', async () => {
  const [kept, gone] = [`Kept ${run}`, `Gone ${run}`]
  const ids = [await seedLevel(kept), await seedLevel(gone)]
  await onPage('/levels', {}, async (page) => {
    const queue = page.getByRole('region', { name: 'Flagged' })
    await queue.getByText('it cannot be won').first().waitFor()
    await queue.getByRole('button', { name: `Keep ${kept}` }).click()
    await queue.getByRole('link', { name: kept }).waitFor({ state: 'detached' })
    await queue.getByRole('button', { name: `Remove… ${gone}` }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
    await queue.getByRole('link', { name: gone }).waitFor({ state: 'detached' })
  })
  const states = await Promise.all(ids.map(async (id) => (await ask('GET', `/v1/levels/${id}`)).state))
  assert.deepEqual(states, ['published', 'removed'])
})

test('a level is taken back and published again', async () => {
  const id = await seedLevel(`Back ${run}`)
  await onPage(`/levels?level=${id}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Take back' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Take back' }).click()
    await page.getByRole('button', { name: 'Publish' }).waitFor()
    assert.equal((await ask('GET', `/v1/levels/${id}`)).state, 'draft')
    await page.getByRole('button', { name: 'Publish' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click()
    await page.getByRole('button', { name: 'Take back' }).waitFor()
    assert.equal((await ask('GET', `/v1/levels/${id}`)).state, 'published')
  })
})
