/** Tests of the Variables page: editing, validation, conflicts, rollback and live updates. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { run, seedVars } from './seed.mjs'
import { request, isRealServer, withPage, waitUntil, setup, env } from './harness.mjs'
import { skipIf } from '../../compat/skip.mjs'

setup()

const SDK = fileURLToPath(new URL('../../sdk/js/dist/playmeter.iife.js', import.meta.url))
/** From the click until another window receives the value. */
const SEEN_WITHIN_MS = 1_000

const definition = async (name) => (await request('GET', '/v1/vars:definitions')).vars[name]
const saved = (page) => page.getByText(/^Saved\. Version \d+ is live\.$/).waitFor()
const save = (page) => page.getByRole('button', { name: 'Save variable', exact: true }).click()
const valueField = (page) => page.getByRole('textbox', { name: 'Value', exact: true })

/** Numbers that JavaScript would round: the server keeps their text, the mock does not. */
const [EXACT, DIGITS] = isRealServer ? ['1.0', '12345678901234567890'] : ['1', '12']

test('a new variable is listed with a description of its conditions', async () => {
  const name = `made-${run}`
  await withPage('/vars', {}, async (page) => {
    await page.getByRole('link', { name: 'New variable' }).click()
    await page.getByLabel('Name', { exact: true }).fill(name)
    await valueField(page).fill(EXACT)
    await page.getByRole('button', { name: 'Add condition' }).click()
    await page.getByLabel('Variant name').fill('fast')
    await page.getByLabel('Variant value').fill(DIGITS)
    await page.getByLabel('Percentage to').fill('25')
    await page.getByLabel('Countries').fill('fr')
    await page.getByLabel('Platforms').fill('web')
    await save(page)
    await page.getByRole('heading', { level: 1, name }).waitFor()
    await page.getByRole('link', { name: 'Variables' }).first().click()
    const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: `Edit ${name}` }) })
    const text = (await row.innerText()).replace(/\s+/g, ' ')
    assert.ok(text.includes(`25% of players in FR on web: ${DIGITS} fast`), text)
    assert.ok(text.endsWith(`otherwise: ${EXACT}`), text)
  })
})

test('conditions are reordered by keyboard and removed', async () => {
  const name = `order-${run}`
  await seedVars(name)
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    const preview = page.getByRole('region', { name: 'Summary' })
    assert.equal(await preview.getByText('Unsaved changes:').count(), 0)
    await page.getByRole('button', { name: 'Move tester up' }).press('Enter')
    await preview.getByText('Unsaved changes:').waitFor()
    await page.getByText('tester is now condition 1 of 2').waitFor()
    await save(page)
    await saved(page)
    assert.deepEqual((await definition(name)).conditions.map((it) => it.name), ['tester', 'fast'])
    await page.getByRole('button', { name: 'Remove fast' }).click()
    await save(page)
    await waitUntil(page, async () => (await definition(name)).conditions.length === 1)
  })
})

test('errors of the form and of the server are shown at their fields', async () => {
  const name = `wrong-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1, schema: { type: 'number', maximum: 10 } })
  await withPage(`/vars?var=${name}`, { expected: [400, 422] }, async (page) => {
    const value = valueField(page)
    await value.fill('fast')
    await save(page)
    await page.getByText('Put text in quotes: "fast"').waitFor()
    assert.equal(await value.evaluate((it) => it === document.activeElement), true)
    await value.fill('11')
    await save(page)
    await waitUntil(page, async () => (await value.getAttribute('aria-invalid')) === 'true')
    assert.equal(await value.evaluate((it) => it === document.activeElement), true)
    await value.fill('9')
    assert.equal(await value.getAttribute('aria-invalid'), 'false')
    await save(page)
    await saved(page)
    assert.equal((await definition(name)).value, 9)
  })
})

test('a conflicting change is shown and the user chooses a version', async () => {
  const name = `both-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    await valueField(page).fill('2')
    await request('PUT', `/v1/vars/${name}`, { value: 3 })
    const conflict = page.getByRole('alert', { name: 'Conflicting change' })
    await conflict.waitFor()
    assert.match(await conflict.innerText(), /value: 1[\s\S]*value: 3/)
    assert.equal(await page.getByRole('button', { name: 'Save variable', exact: true }).isDisabled(), true)
    await conflict.getByRole('button', { name: /Keep mine/ }).click()
    await save(page)
    await saved(page)
    assert.equal((await definition(name)).value, 2)
    await valueField(page).fill('4')
    await request('PUT', `/v1/vars/${name}`, { value: 5 })
    await conflict.getByRole('button', { name: /Use theirs/ }).click()
    assert.equal(await valueField(page).inputValue(), '5')
    await valueField(page).fill('6')
    await request('PUT', '/v1/vars', { vars: { [name]: null } })
    await conflict.getByText('was deleted while you were editing').waitFor()
    await conflict.getByRole('button', { name: /Keep mine/ }).click()
    await save(page)
    await saved(page)
    assert.equal((await definition(name)).value, 6)
  })
})

test('leaving with unsaved changes asks for confirmation', async () => {
  const name = `typed-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    await valueField(page).fill('2')
    const leave = () => page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Leaderboards' }).click()
    page.once('dialog', (dialog) => dialog.dismiss())
    await leave()
    assert.equal(await valueField(page).inputValue(), '2')
    page.once('dialog', (dialog) => dialog.accept())
    await leave()
    await page.getByRole('heading', { level: 1, name: 'Leaderboards' }).waitFor()
  })
})

test('a change of another variable causes no conflict', async () => {
  const name = `mine-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await withPage(`/vars?var=${name}`, { expected: [409] }, async (page) => {
    await valueField(page).fill('2')
    await page.route('**/v1/watch*', (route) => route.abort())
    await request('PUT', `/v1/vars/theirs-${run}`, { value: Date.now() })
    await save(page)
    await saved(page)
    assert.equal((await definition(name)).value, 2)
  })
})

test('a change that affects only other players is shown', async () => {
  const name = `others-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await withPage('/vars', {}, async (page) => {
    await page.getByRole('link', { name: `Edit ${name}` }).waitFor()
    await request('PUT', `/v1/vars/${name}`, { value: 1, conditions: [{ name: 'x', value: 2, country: ['JP'] }] })
    await page.getByText('players in JP').waitFor()
  })
})

test('a change is undone after a preview of the rollback', async () => {
  const name = `back-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 'first' })
  await request('PUT', `/v1/vars/${name}`, { value: 'second' })
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    await page.locator('summary').filter({ hasText: /^Version/ }).first().click()
    await page.getByRole('button', { name: 'Undo this change' }).click()
    const dialog = page.getByRole('dialog')
    assert.match(await dialog.innerText(), /value: "second"[\s\S]*value: "first"/)
    await page.keyboard.press('Escape')
    assert.equal((await definition(name)).value, 'second')
    await page.getByRole('button', { name: 'Undo this change' }).click()
    await dialog.getByRole('button', { name: 'Roll back' }).click()
    await dialog.waitFor({ state: 'detached' })
    assert.equal((await definition(name)).value, 'first')
    await waitUntil(page, async () => (await valueField(page).inputValue()) === '"first"')
  })
})

test('the preview for a player is evaluated by the server', async () => {
  const name = `tried-${run}`
  await seedVars(name)
  await withPage('/vars', {}, async (page) => {
    const row = page.getByRole('region', { name: 'Preview for a player' }).getByRole('row').filter({ hasText: name })
    await row.getByText('1.5').waitFor()
    await page.getByLabel('Segments').fill('testers')
    await row.getByText('tester', { exact: true }).waitFor()
    assert.match(await row.innerText(), /3/)
  })
})

test('a variable is deleted after a confirmation', async () => {
  const name = `gone-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    await page.getByRole('button', { name: 'Delete variable', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('heading', { level: 1, name: 'Variables' }).waitFor()
    assert.equal(await definition(name), undefined)
  })
})

test('a game in another window receives a changed variable within a second', { skip: skipIf(!existsSync(SDK), 'sdk', 'run `make sdk`') }, async () => {
  const name = `live-${run}`
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  const other = await env.browser.newContext()
  await other.addInitScript({ content: `${readFileSync(SDK, 'utf8')};globalThis.Playmeter = Playmeter` })
  const game = await other.newPage()
  await game.goto(`${env.server.url}/licenses.txt`)
  await game.evaluate(
    ([url, key, name]) => {
      globalThis.seen = []
      globalThis.game = new globalThis.Playmeter({ url, key, sessions: false })
      globalThis.game.vars.watch(name, (value) => globalThis.seen.push(value))
    },
    [env.server.url, env.server.publicKey, name],
  )
  await game.waitForFunction(() => globalThis.seen.at(-1) === 1)
  await withPage(`/vars?var=${name}`, {}, async (page) => {
    await valueField(page).fill('2')
    const before = Date.now()
    await save(page)
    await game.waitForFunction(() => globalThis.seen.at(-1) === 2, undefined, { polling: 20 })
    assert.ok(Date.now() - before < SEEN_WITHIN_MS, `${Date.now() - before} ms`)
  })
  await other.close()
})

test('the demo game applies a changed variable within a second', { skip: skipIf(!isRealServer, 'server-only', 'the mock has no demo game') }, async () => {
  await request('PUT', '/v1/vars/hue', { value: 225 })
  const game = await env.browser.newPage()
  await game.goto(`${env.server.url}/play/`)
  const hue = () => game.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue('--hue').trim())
  await waitUntil(game, async () => (await hue()) === '225')
  await withPage('/vars?var=hue', {}, async (page) => {
    await valueField(page).fill('30')
    const before = Date.now()
    await save(page)
    await waitUntil(game, async () => (await hue()) === '30', SEEN_WITHIN_MS)
    assert.ok(Date.now() - before < SEEN_WITHIN_MS, `${Date.now() - before} ms`)
  })
  await game.close()
})
