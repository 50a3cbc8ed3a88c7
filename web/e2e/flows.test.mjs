/** The Flows page: figures that are those of the API, the list, one flow, ends, and the minutes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bye, packetsOf, run, sendPackets } from './seed.mjs'
import { ask, isReal, onPage, until, useWorld } from './world.mjs'

const ends = (number) => [`caller${number}-${run}`, `callee${number}-${run}`]
const rowOf = (page, name) => page.getByRole('row').filter({ hasText: name })
const numberOf = (page, name) => page.locator(`[data-number="${name}"]`).innerText()
/** 1 does best, 5 loses four of five. */
const STEPS = [1, 2, 3, 4, 5]
/** One packet in so many is lost: poor, fair and good. */
const THIN = [8, 16, 40]

useWorld(async () => {
  for (const step of STEPS) await sendPackets(packetsOf(...ends(step), 40, step))
  for (const lost of THIN) {
    const [from, to] = ends(`-thin-${lost}-`)
    await sendPackets(packetsOf(from, to, 80).filter((_, i) => i % lost !== 3))
  }
})

test('the figures of all flows are those of the API', async () => {
  await onPage('/flows', {}, async (page) => {
    await page.getByText('Connected').waitFor()
    await until(page, async () => {
      const [{ running, now }, shown, loss, mos] = await Promise.all([
        ask('GET', '/v1/flows'),
        numberOf(page, 'running'),
        numberOf(page, 'loss'),
        numberOf(page, 'mos'),
      ])
      const isLoss = Math.abs(Number.parseFloat(loss) - 100 * now.loss) < 0.1
      return Number(shown) === running && isLoss && mos === now.mos.p50.toFixed(2)
    })
  })
})

test('every flow is counted under one word for how it sounds', async () => {
  const words = { excellent: 33, good: 30, fair: 26, poor: 21, bad: 0 }
  await onPage('/flows', {}, async (page) => {
    await page.getByText('Connected').waitFor()
    await until(page, async () => {
      const { now } = await ask('GET', '/v1/flows')
      let above = now.mos_tenths.length
      for (const [word, from] of Object.entries(words)) {
        const flows = now.mos_tenths.slice(from, above).reduce((sum, flows) => sum + flows, 0)
        if (Number(await numberOf(page, word)) !== flows) return false
        above = from
      }
      return true
    })
  })
})

test('a new flow is on the page within two seconds, the worst first', async () => {
  const [from, to] = ends('new')
  await onPage('/flows', {}, async (page) => {
    await page.getByRole('heading', { name: 'Worst flows now' }).waitFor()
    await sendPackets(packetsOf(from, to, 30, 30))
    await rowOf(page, from).waitFor({ timeout: 2_000 })
    const rows = await page.getByRole('table', { name: 'Worst sound first' }).getByRole('row').allInnerTexts()
    assert.match(rows[1], new RegExp(`bad[\\s\\S]*${from}`))
    await sendPackets([bye(to, from)])
    await page.getByRole('table', { name: 'Ended lately' }).getByRole('link', { name: `${from} → ${to}` }).waitFor()
    if (isReal) await until(page, async () => Number(await numberOf(page, 'ended')) === (await endedLastHour()), 20_000)
  })
})

test('flows are found by end, sound and loss, and ordered by their figures', async () => {
  await onPage('/flows', {}, async (page) => {
    await page.getByLabel('Of the end').fill(ends(3)[1])
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText(/^1 of \d+ that run$/).waitFor()
    assert.match(await rowOf(page, ends(3)[0]).innerText(), /bad/)
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByLabel('Sounding').selectOption({ label: 'bad alone' })
    await rowOf(page, ends(5)[0]).waitFor()
    await until(page, async () => (await rowOf(page, ends(1)[0]).count()) === 0)
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByRole('link', { name: 'Loss: the worst first' }).click()
    await page.getByRole('columnheader', { name: /Loss/ }).and(page.locator('[aria-sort="descending"]')).waitFor()
    const expected = (await ask('GET', '/v1/flows?sort=loss&per_page=1')).flows[0]
    const first = page.getByRole('table', { name: 'Most loss first' }).getByRole('link', { name: / → / }).first()
    await until(page, async () => (await first.innerText()).includes(expected.from.id))
    await page.getByLabel('Of the end').fill('nobody')
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByText('No flow like this runs').waitFor()
  })
})

test('a flow is opened with both directions, and its end is seen', async () => {
  const [from, to] = ends('opened')
  await sendPackets([...packetsOf(from, to, 12, 2), ...packetsOf(to, from, 5), { from, to, seq: 3, from_address: '192.0.2.7:5000' }])
  await onPage(`/flows?end=${from}`, {}, async (page) => {
    await page.getByRole('link', { name: `${from} → ${to}` }).click()
    await page.getByRole('heading', { level: 1, name: `${from} → ${to}` }).waitFor()
    const id = new URL(page.url()).searchParams.get('flow')
    const { sent, received, recent } = await ask('GET', `/v1/flows/${id}`)
    const figure = async (name) => (await page.getByRole('row', { name }).getByRole('cell').allInnerTexts()).join(' ')
    assert.equal(await figure('Received'), `${sent.received} ${received.received}`)
    assert.match(await figure('Lost'), new RegExp(`^${sent.lost} \\(.*\\) ${received.lost} \\(0%\\)$`))
    assert.equal(await figure('Duplicated'), `${sent.duplicated} ${received.duplicated}`)
    assert.equal(await numberOf(page, 'mos'), recent.mos.toFixed(2))
    if (isReal) await page.getByText('192.0.2.7:5000').waitFor()
    await sendPackets([bye(to, from)])
    await page.getByText(/^ended .* with a BYE$/).first().waitFor()
    await page.getByRole('link', { name: 'Flows' }).first().click()
    await page.getByRole('table', { name: 'Ended lately' }).getByRole('link', { name: `${from} → ${to}` }).waitFor()
  })
})

test('a flow that nobody knows is said to be gone', async () => {
  await onPage('/flows?flow=0123456789abcdef', { expected: [404] }, async (page) => {
    await page.getByRole('alert').getByText('No flow 0123456789abcdef runs').waitFor()
  })
})

test('the charts show the minutes of the API, in each range', async () => {
  await onPage('/flows', {}, async (page) => {
    const card = page.getByRole('region', { name: 'Sound over time', exact: true })
    await until(page, async () => (await minutes()).some((mos) => mos !== null), 75_000)
    await card.locator('canvas').waitFor({ timeout: 12_000 })
    await page.getByRole('button', { name: 'Sound over time: view as table' }).click()
    await until(page, async () => {
      const known = (await minutes()).filter((mos) => mos !== null)
      const rows = await card.getByRole('region').getByRole('row').allInnerTexts()
      const shown = rows.slice(1).reverse().map((row) => row.split('\t')[1]).filter(Boolean)
      return shown.join() === known.map((mos) => mos.toFixed(2)).join()
    }, 12_000)
    for (const range of ['6 hours', '24 hours', '7 days']) {
      await page.getByRole('navigation', { name: 'How far back' }).getByRole('link', { name: range }).click()
      await page.getByRole('region', { name: 'Loss over time', exact: true }).locator('canvas').waitFor()
    }
  })
})

async function endedLastHour() {
  const { series } = await ask('GET', '/v1/query?last=60m&step=minute&metric=$flow')
  return series[0].total
}

async function minutes() {
  const { series } = await ask('GET', '/v1/query?last=60m&step=minute&metric=$flow.mos&measure=p50')
  return series[0].values
}
