/** Tests of the Flows page: totals, list, one flow, ended flows and charts, compared with the API. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bye, packetsOf, run, sendPackets } from './seed.mjs'
import { request, isRealServer, withPage, waitUntil, setup } from './harness.mjs'

const endsOf = (number) => [`caller${number}-${run}`, `callee${number}-${run}`]
const rowOf = (page, name) => page.getByRole('row').filter({ hasText: name })
const numberOf = (page, name) => page.locator(`[data-number="${name}"]`).innerText()
/** One packet in `step` arrives: with step 5, four of five packets are lost. */
const STEPS = [1, 2, 3, 4, 5]
/** One packet in this many is lost, for a poor, fair and good rating. */
const LOSS_STEPS = [8, 16, 40]

setup(async () => {
  for (const step of STEPS) await sendPackets(packetsOf(...endsOf(step), 40, step))
  for (const lost of LOSS_STEPS) {
    const [from, to] = endsOf(`-thin-${lost}-`)
    await sendPackets(packetsOf(from, to, 80).filter((_, i) => i % lost !== 3))
  }
})

test('the totals of all flows match the API', async () => {
  await withPage('/flows', {}, async (page) => {
    await page.getByText('Connected').waitFor()
    await waitUntil(page, async () => {
      const [{ running, now }, shown, loss, mos] = await Promise.all([
        request('GET', '/v1/flows'),
        numberOf(page, 'running'),
        numberOf(page, 'loss'),
        numberOf(page, 'mos'),
      ])
      const isLoss = Math.abs(Number.parseFloat(loss) - 100 * now.loss) < 0.1
      return Number(shown) === running && isLoss && mos === now.mos.p50.toFixed(2)
    })
  })
})

test('every flow is counted under one rating', async () => {
  const ratings = { excellent: 33, good: 30, fair: 26, poor: 21, bad: 0 }
  await withPage('/flows', {}, async (page) => {
    await page.getByText('Connected').waitFor()
    await waitUntil(page, async () => {
      const { now } = await request('GET', '/v1/flows')
      let above = now.mos_tenths.length
      for (const [rating, from] of Object.entries(ratings)) {
        const flows = now.mos_tenths.slice(from, above).reduce((sum, flows) => sum + flows, 0)
        if (Number(await numberOf(page, rating)) !== flows) return false
        above = from
      }
      return true
    })
  })
})

test('a new flow appears within two seconds, sorted worst first', async () => {
  const [from, to] = endsOf('new')
  await withPage('/flows', {}, async (page) => {
    await page.getByRole('heading', { name: 'Worst flows now' }).waitFor()
    await sendPackets(packetsOf(from, to, 30, 30))
    await rowOf(page, from).waitFor({ timeout: 2_000 })
    const rows = await page.getByRole('table', { name: 'Worst quality first' }).getByRole('row').allInnerTexts()
    assert.match(rows[1], new RegExp(`bad[\\s\\S]*${from}`))
    await sendPackets([bye(to, from)])
    await page.getByRole('table', { name: 'Recently ended, newest first' }).getByRole('link', { name: `${from} → ${to}` }).waitFor()
    if (isRealServer) await waitUntil(page, async () => Number(await numberOf(page, 'ended')) === (await endedLastHour()), 20_000)
  })
})

test('flows are filtered by end and quality and sorted by metric', async () => {
  // Quality is that of the last seconds, so these flows are new.
  const ends = (step) => endsOf(`-filtered-${step}-`)
  for (const step of STEPS) await sendPackets(packetsOf(...ends(step), 40, step))
  await withPage('/flows', {}, async (page) => {
    await page.getByLabel('End', { exact: true }).fill(ends(3)[1])
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await page.getByText(/^1 of \d+ active$/).waitFor()
    assert.match(await rowOf(page, ends(3)[0]).innerText(), /bad/)
    await page.getByRole('button', { name: 'Clear filters' }).click()
    await page.getByRole('combobox', { name: /^Quality/ }).selectOption({ label: 'bad only' })
    await rowOf(page, ends(5)[0]).waitFor()
    await waitUntil(page, async () => (await rowOf(page, ends(1)[0]).count()) === 0)
    await page.getByRole('button', { name: 'Clear filters' }).click()
    await page.getByRole('link', { name: 'Sort by loss, worst first' }).click()
    await page.getByRole('columnheader', { name: /loss/i }).and(page.locator('[aria-sort="descending"]')).waitFor()
    const expected = (await request('GET', '/v1/flows?sort=loss&per_page=1')).flows[0]
    const first = page.getByRole('table', { name: 'Highest loss first' }).getByRole('link', { name: / → / }).first()
    await waitUntil(page, async () => (await first.innerText()).includes(expected.from.id))
    await page.getByLabel('End', { exact: true }).fill('nobody')
    await page.getByRole('button', { name: 'Apply filters' }).click()
    await page.getByText('No active flow matches').waitFor()
  })
})

test('a flow page shows both directions and the end of the flow', async () => {
  const [from, to] = endsOf('opened')
  await sendPackets([...packetsOf(from, to, 12, 2), ...packetsOf(to, from, 5), { from, to, seq: 3, from_address: '192.0.2.7:5000' }])
  await withPage(`/flows?end=${from}`, {}, async (page) => {
    await page.getByRole('link', { name: `${from} → ${to}` }).click()
    await page.getByRole('heading', { level: 1, name: `${from} → ${to}` }).waitFor()
    const id = new URL(page.url()).searchParams.get('flow')
    const { sent, received, recent } = await request('GET', `/v1/flows/${id}`)
    const metric = async (name) => (await page.getByRole('row', { name }).getByRole('cell').allInnerTexts()).join(' ')
    assert.equal(await metric('Received'), `${sent.received} ${received.received}`)
    assert.match(await metric('Lost'), new RegExp(`^${sent.lost} \\(.*\\) ${received.lost} \\(0%\\)$`))
    assert.equal(await metric('Duplicated'), `${sent.duplicated} ${received.duplicated}`)
    assert.equal(await numberOf(page, 'mos'), recent.mos.toFixed(2))
    if (isRealServer) await page.getByText('192.0.2.7:5000').waitFor()
    await sendPackets([bye(to, from)])
    await page.getByText(/^ended .* with a BYE$/).first().waitFor()
    await page.getByRole('link', { name: 'Flows' }).first().click()
    await page.getByRole('table', { name: 'Recently ended, newest first' }).getByRole('link', { name: `${from} → ${to}` }).waitFor()
  })
})

test('an unknown flow shows an error', async () => {
  await withPage('/flows?flow=0123456789abcdef', { expected: [404] }, async (page) => {
    await page.getByRole('alert').getByText('Flow 0123456789abcdef is neither active').waitFor()
  })
})

test('the charts match the API in each time range', async () => {
  await withPage('/flows', {}, async (page) => {
    const card = page.getByRole('region', { name: 'MOS over time', exact: true })
    await waitUntil(page, async () => (await minutes()).some((mos) => mos !== null), 75_000)
    await card.locator('canvas').waitFor({ timeout: 12_000 })
    await page.getByRole('button', { name: 'MOS over time: view as table' }).click()
    await waitUntil(page, async () => {
      const known = (await minutes()).filter((mos) => mos !== null)
      const rows = await card.getByRole('region').getByRole('row').allInnerTexts()
      const shown = rows.slice(1).reverse().map((row) => row.split('\t')[1]).filter(Boolean)
      return shown.join() === known.map((mos) => mos.toFixed(2)).join()
    }, 12_000)
    for (const range of ['6 hours', '24 hours', '7 days']) {
      await page.getByRole('navigation', { name: 'Time range' }).getByRole('link', { name: range }).click()
      await page.getByRole('region', { name: 'Loss over time', exact: true }).locator('canvas').waitFor()
    }
  })
})

async function endedLastHour() {
  const { series } = await request('GET', '/v1/query?last=60m&step=minute&metric=$flow')
  return series[0].total
}

async function minutes() {
  const { series } = await request('GET', '/v1/query?last=60m&step=minute&metric=$flow.mos&measure=p50')
  return series[0].values
}
