/** Tests of the Collectors page. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { test } from 'node:test'
import { request, isRealServer, withPage, waitUntil, setup } from './harness.mjs'

setup()

const collector = async (name) => (await request('GET', '/v1/collectors')).collectors.find((it) => it.name === name)

test('a collector shows received events and reasons of rejections within three seconds', async () => {
  await withPage('/collectors', {}, async (page) => {
    const row = page.getByRole('listitem').filter({ hasText: 'statsd over UDP' })
    const shown = async () => Number((await row.locator('[data-number]').innerText()).replaceAll(',', ''))
    await row.getByText('running', { exact: true }).waitFor()
    await row.locator('[data-number]').waitFor()
    const { address, counters: { received: before } } = await collector('statsd')
    if (isRealServer) await send(address, 'hits:3|c\nthis is no line')
    await waitUntil(page, async () => (await shown()) >= before + 2, 3_000)
    await row.getByText('malformed line').waitFor()
    const { counters } = await collector('statsd')
    assert.equal(counters.received, counters.accepted + counters.refused)
  })
})

test('the commands to restart and stop a collector can be copied', async () => {
  await withPage('/collectors', {}, async (page) => {
    const row = page.getByRole('listitem').filter({ hasText: 'statsd over UDP' })
    await row.getByText('Restart or stop this collector').click()
    await row.getByText('playmeter collectors stop statsd').waitFor()
    await row.getByRole('button', { name: /the command to restart statsd/ }).waitFor()
  })
})

function send(address, text) {
  const [host, port] = address.split(':')
  const socket = createSocket('udp4')
  return new Promise((done) => socket.send(text, Number(port), host, () => (socket.close(), done())))
}
