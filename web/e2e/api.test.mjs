/** Tests of the API page. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { withPage, setup, env } from './harness.mjs'

setup()

/** Asynchronous, because the mock server runs in this process. */
const inShell = promisify(execFile)

const operation = (page, path, method) =>
  page.locator('details').filter({ has: page.getByText(path, { exact: true }) }).filter({ has: page.getByText(method, { exact: true }) })

test('the example command contains the public key and works', async () => {
  await withPage('/api', {}, async (page) => {
    const card = operation(page, '/v1/events', 'POST')
    await card.locator('summary').press('Enter')
    const command = await card.getByLabel('Command').innerText()
    assert.match(command, new RegExp(`Bearer ${env.server.publicKey}`))
    const { stdout } = await inShell('bash', ['-c', command.replace('curl ', 'curl -s --max-time 10 ')])
    assert.ok(JSON.parse(stdout).accepted >= 1, stdout)
  })
})

test('a secret key is shown as a variable', async () => {
  await withPage('/api', {}, async (page) => {
    const card = operation(page, '/v1/vars/{name}', 'PUT')
    await card.locator('summary').click()
    assert.match(await card.getByLabel('Command').innerText(), /Bearer \$PLAYMETER_SECRET_KEY/)
    await card.getByRole('row').filter({ hasText: 'conditions' }).first().waitFor()
  })
})

test('routes are filtered by any of their words', async () => {
  await withPage('/api', {}, async (page) => {
    const filter = page.getByRole('searchbox', { name: /Filter routes/ })
    await filter.fill('put conditions /v1/vars/{name}')
    await page.getByText('1 route', { exact: true }).waitFor()
    await page.getByLabel('Command').waitFor()
    await filter.fill('no such thing')
    await page.getByText('No route contains all of these words').waitFor()
  })
})

test('a command can be copied', async () => {
  await withPage('/api', {}, async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const card = operation(page, '/v1/events', 'POST')
    await card.locator('summary').click()
    await card.getByRole('button', { name: /Copy/ }).click()
    await card.getByText('Copied').waitFor()
    assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^curl -X POST/)
  })
})
