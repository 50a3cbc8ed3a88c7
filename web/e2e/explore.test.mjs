/** Tests of the Explore page. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { assertAccessible, assertLayout, DESKTOP, PHONE, isRealServer, request, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Names of this run: the server may have the data of earlier runs. */
const RUN = `x${Date.now().toString(36)}`
const SHOP = `${RUN}_shop`

setup(seed)

/** Purchases of three items in two countries over ten days, and attempts at level 3. */
async function seed() {
  const events = []
  const now = Date.now()
  for (let day = 0; day < 10; day += 1) {
    const at = (more) => new Date(now - day * DAY_MS - HOUR_MS + more).toISOString()
    for (const [player, country] of [['ann', 'FR'], ['bo', 'FR'], ['cy', 'DE']]) {
      const common = { player: `${RUN}${player}`, country, platform: 'web' }
      const item = day % 2 ? 'gems' : 'skin'
      events.push({ event: SHOP, ts: at(0), value: 2, props: { item, price: 5, vip: player === 'ann' }, ...common })
      // The rate counts the pair of events that the game sends most; a server may have more of either.
      for (const prefix of ['level_', '']) {
        for (const i of [0, 1]) events.push({ event: `${prefix}start`, ts: at(i), level: `${RUN}3`, ...common })
        if (player !== 'bo') events.push({ event: `${prefix}win`, ts: at(9), level: `${RUN}3`, ...common })
      }
    }
  }
  if (isRealServer) for (let i = 0; i < events.length; i += 100) await request('POST', '/v1/events', events.slice(i, i + 100))
}

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const chartOf = (page) => page.getByRole('application')
const legend = (page) => page.getByRole('region', { name: 'Series, table' })
const row = (page, name) => legend(page).getByRole('row').filter({ hasText: name })

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the page fits and is accessible on a ${theme} ${device}`, { skip }, async () => {
    const path = `/explore?metric=${SHOP}&by=country&compare=previous`
    await withPage(path, { theme, viewport }, async (page) => {
      await row(page, 'France').waitFor()
      await chartOf(page).waitFor()
      await assertLayout(page, `explore-${theme}-${device}`)
    })
  })
}

test('the win rate of a level by country, compared with the week before, is three clicks from its level', { skip }, async () => {
  await withPage(`/explore?metric=level_win_rate&where=level,=,${RUN}3`, {}, async (page) => {
    await page.getByRole('button', { name: /^Break down by/ }).click()
    await page.getByRole('option', { name: 'country' }).click()
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await row(page, 'Germany').waitFor()
    await waitUntil(page, async () => /Germany[\s\S]*50\.0%[\s\S]*50\.0%[\s\S]*pp/.test(await row(page, 'Germany').innerText()))
    assert.match(await row(page, 'France').innerText(), /25\.0%/)
    const url = new URL(page.url())
    assert.deepEqual([url.searchParams.get('by'), url.searchParams.get('compare')], ['country', 'previous'])
  })
})

test('a metric is found by its name, and a filter by a property of the event is answered from raw events', { skip }, async () => {
  await withPage('/explore?last=30d', {}, async (page) => {
    await page.getByRole('button', { name: /^Metric/ }).click()
    await page.keyboard.type(SHOP)
    await page.keyboard.press('Enter')
    await row(page, SHOP).waitFor()
    await page.getByRole('button', { name: /^Add a filter/ }).click()
    await page.keyboard.type('vip')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: /^vip, value/ }).click()
    await page.keyboard.type('true')
    await page.keyboard.press('Enter')
    await page.getByText('From raw events').waitFor()
    assert.equal(new URL(page.url()).searchParams.get('where'), 'props.vip,=,true')
    await waitUntil(page, async () => /\b10\b/.test(await row(page, SHOP).innerText()))
  })
})

test('the sum of a property by another is shown as bars, a table and numbers', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&measure=sum&property=props.price&by=props.item&last=30d`, {}, async (page) => {
    await row(page, 'gems').waitFor()
    assert.match(await row(page, 'gems').innerText(), /75/)
    for (const view of ['Bar', 'Area']) {
      await page.getByRole('button', { name: view, exact: true }).click()
      await chartOf(page).locator('canvas').waitFor()
    }
    await page.getByRole('button', { name: 'Table', exact: true }).click()
    await page.getByRole('columnheader', { name: 'gems' }).waitFor()
    await page.getByRole('button', { name: 'Number', exact: true }).click()
    await page.getByText('75', { exact: true }).first().waitFor()
    await page.goBack()
    await page.getByRole('columnheader', { name: 'gems' }).waitFor()
  })
})

test('a click in the legend isolates a series, and a second one shows all', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&by=country`, {}, async (page) => {
    await row(page, 'France').getByRole('button').click()
    await waitUntil(page, async () => !(await row(page, 'Germany').getByRole('checkbox').isChecked()))
    assert.deepEqual(new URL(page.url()).searchParams.getAll('hide'), ['DE'])
    await row(page, 'France').getByRole('button').click()
    await waitUntil(page, async () => row(page, 'Germany').getByRole('checkbox').isChecked())
  })
})

test('a new event changes the chart without a reload', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&last=30d`, {}, async (page) => {
    await row(page, SHOP).waitFor()
    const before = Number((await row(page, SHOP).innerText()).match(/(\d+)\s*$/)?.[1])
    await request('POST', '/v1/events', [{ event: SHOP, player: `${RUN}ann`, country: 'FR', value: 2 }])
    await waitUntil(page, async () => Number((await row(page, SHOP).innerText()).match(/(\d+)\s*$/)?.[1]) === before + 1, 15_000)
  })
})

test('a formula over two series is computed, and a wrong one names what is wrong', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&b.metric=level_win&b.where=level,=,${RUN}3&formula=B / A&last=30d`, {}, async (page) => {
    await page.getByRole('heading', { name: 'B / A' }).waitFor()
    await waitUntil(page, async () => /\d\d\.\d%/.test(await legend(page).innerText()))
    await page.getByLabel('Formula').fill('A / X')
    await page.getByLabel('Formula').press('Enter')
    await page.getByRole('alert').filter({ hasText: '"X" is not a series' }).waitFor()
  })
})

test('dragging over the chart zooms in, and the arrow keys show the values', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&last=30d`, {}, async (page) => {
    await chartOf(page).locator('canvas').waitFor()
    await chartOf(page).focus()
    await page.keyboard.press('ArrowLeft')
    await chartOf(page).getByRole('status').filter({ hasText: 'so far' }).waitFor()
    const box = await chartOf(page).boundingBox()
    await page.mouse.move(box.x + box.width * 0.4, box.y + 100)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.7, box.y + 120, { steps: 5 })
    await page.mouse.up()
    await waitUntil(page, async () => new URL(page.url()).searchParams.has('from'))
  })
})

test('unusable parameters are named, an error names its field, and no data says what to do', { skip }, async () => {
  await withPage('/explore?top=many&metric=nosuch', { expected: [] }, async (page) => {
    await page.getByRole('alert').filter({ hasText: 'top' }).waitFor()
    await page.getByText('No data for this period').waitFor()
    await assertAccessible(page)
  })
  await withPage('/explore?metric=sessions&where=props.vip,=,true', {}, async (page) => {
    await page.getByRole('alert').filter({ hasText: 'metric' }).waitFor()
  })
  await withPage(`/explore?metric=${SHOP}&by=props.item&step=minute&last=365d&top=100`, { expected: [400] }, async (page) => {
    await page.getByRole('alert').filter({ hasText: 'step' }).waitFor()
  })
})

test('the request is shown as code and the result is a CSV file', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}&by=country`, {}, async (page) => {
    await row(page, 'France').waitFor()
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Download CSV' }).click()
    assert.match((await download).suggestedFilename(), /\.csv$/)
    await page.getByRole('button', { name: 'As code' }).click()
    await page.getByRole('region', { name: 'Code' }).filter({ hasText: '/v1/query' }).waitFor()
    await assertAccessible(page)
  })
})

test('the dates, filters and pickers are accessible and stay inside a phone', { skip }, async () => {
  for (const viewport of [DESKTOP, PHONE]) {
    await withPage(`/explore?metric=${SHOP}`, { viewport }, async (page) => {
      await row(page, SHOP).waitFor()
      await page.getByRole('button', { name: /^Date range/ }).click()
      await assertLayout(page, `explore-dates-${viewport.width}`)
      await page.getByRole('button', { name: 'Last 30 days' }).click()
      await waitUntil(page, async () => new URL(page.url()).searchParams.get('last') === '30d')
      if (viewport === PHONE) await page.getByRole('button', { name: 'Edit the question' }).click()
      await page.getByRole('button', { name: /^Metric/ }).click()
      await assertLayout(page, `explore-metric-${viewport.width}`)
    })
  }
})

test('a range of days begins at midnight in the zone of the game', { skip }, async () => {
  await withPage(`/explore?metric=${SHOP}`, {}, async (page) => {
    await page.getByRole('button', { name: /^Date range/ }).click()
    const fields = page.getByRole('dialog').getByRole('textbox')
    await fields.nth(0).fill('2026-11-02')
    await fields.nth(1).fill('2026-11-01')
    await page.getByRole('button', { name: 'Apply' }).click()
    await page.getByRole('alert').filter({ hasText: 'The first must be before the second' }).waitFor()
    await fields.nth(0).fill('2026-11-01')
    await page.getByRole('button', { name: 'Apply' }).click()
    await waitUntil(page, async () => new URL(page.url()).searchParams.get('to') === '2026-11-01')
    await page.getByText('No data for this period').waitFor()
  })
})
