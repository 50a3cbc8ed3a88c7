/** The Collectors page: what each is doing, what it received and why some of it was refused. */
import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { test } from 'node:test'
import { ask, isReal, onPage, until, useWorld } from './world.mjs'

useWorld()

const collector = async (name) => (await ask('GET', '/v1/collectors')).collectors.find((it) => it.name === name)

test('a collector shows what it received within two seconds, and why some was refused', async () => {
  await onPage('/collectors', {}, async (page) => {
    const row = page.getByRole('listitem').filter({ hasText: 'statsd over UDP' })
    const shown = async () => Number((await row.locator('[data-number]').innerText()).replaceAll(',', ''))
    await row.getByText('running', { exact: true }).waitFor()
    await row.locator('[data-number]').waitFor()
    const { address, counters: { received: before } } = await collector('statsd')
    if (isReal) await send(address, 'hits:3|c\nthis is no line')
    await until(page, async () => (await shown()) >= before + 2, 3_000)
    await row.getByText('malformed line').waitFor()
    const { counters } = await collector('statsd')
    assert.equal(counters.received, counters.accepted + counters.refused)
  })
})

test('how to stop a collector is there to be copied', async () => {
  await onPage('/collectors', {}, async (page) => {
    const row = page.getByRole('listitem').filter({ hasText: 'statsd over UDP' })
    await row.getByText('Restart or stop it').click()
    await row.getByText('playmeter collectors stop statsd').waitFor()
    await row.getByRole('button', { name: /the command to restart statsd/ }).waitFor()
  })
})

function send(address, text) {
  const [host, port] = address.split(':')
  const socket = createSocket('udp4')
  return new Promise((done) => socket.send(text, Number(port), host, () => (socket.close(), done())))
}
