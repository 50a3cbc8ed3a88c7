/** The API page: the server's own description, to be searched and tried. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { onPage, useWorld, world } from './world.mjs'

useWorld()

/** Not waited for by standing still: the mock is in this process. */
const inShell = promisify(execFile)

const operation = (page, path, method) =>
  page.locator('details').filter({ has: page.getByText(path, { exact: true }) }).filter({ has: page.getByText(method, { exact: true }) })

test('the command has the public key of the game, and does what it says', async () => {
  await onPage('/api', {}, async (page) => {
    const card = operation(page, '/v1/events', 'POST')
    await card.locator('summary').press('Enter')
    const command = await card.getByLabel('Command').innerText()
    assert.match(command, new RegExp(`Bearer ${world.server.publicKey}`))
    const { stdout } = await inShell('bash', ['-c', command.replace('curl ', 'curl -s --max-time 10 ')])
    assert.ok(JSON.parse(stdout).accepted >= 1, stdout)
  })
})

test('a secret key is named, not shown', async () => {
  await onPage('/api', {}, async (page) => {
    const card = operation(page, '/v1/vars/{name}', 'PUT')
    await card.locator('summary').click()
    assert.match(await card.getByLabel('Command').innerText(), /Bearer \$PLAYMETER_SECRET_KEY/)
    await card.getByRole('row').filter({ hasText: 'conditions' }).first().waitFor()
  })
})

test('routes are found by any of their words', async () => {
  await onPage('/api', {}, async (page) => {
    const filter = page.getByRole('searchbox', { name: /Filter routes/ })
    await filter.fill('put conditions /v1/vars/{name}')
    await page.getByText('1 route', { exact: true }).waitFor()
    await page.getByLabel('Command').waitFor()
    await filter.fill('no such thing')
    await page.getByText('No route has all of these words').waitFor()
  })
})

test('a command is copied', async () => {
  await onPage('/api', {}, async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const card = operation(page, '/v1/events', 'POST')
    await card.locator('summary').click()
    await card.getByRole('button', { name: /Copy/ }).click()
    await card.getByText('Copied').waitFor()
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -X POST/)
  })
})
