/** Tests of the Retention page against a server: the mean, open cells, breakdown and states. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { sendHistory } from './seed-history.mjs'
import { run } from './seed.mjs'
import { assertLayout, isRealServer, setup, VIEWPORTS, withPage } from './harness.mjs'

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const EVENT = `visit_${run}`
const PAGE = `/retention?start=${EVENT}`
const DAY_H = 24

/** 40 players began four days ago; ten came back the day after, and two today. */
function visits() {
  const at = (i, days) => ({ event: EVENT, player: `visit-${run}-${i}`, country: i % 2 ? 'FR' : 'DE', hoursAgo: days * DAY_H })
  return Array.from({ length: 40 }, (_, i) => [at(i, 4), ...(i < 10 ? [at(i, 3)] : []), ...(i < 2 ? [at(i, 0)] : [])]).flat()
}

setup(async () => {
  if (isRealServer) await sendHistory(visits())
})

const meanRow = (page) => page.getByRole('row', { name: /^Weighted mean/ })

test('the mean is on top, and the period that is not over is outlined', { skip }, async () => {
  await withPage(PAGE, {}, async (page) => {
    await meanRow(page).waitFor()
    assert.match(await meanRow(page).innerText(), /40\s+100\.0%\s+25\.0%\s+0\.0%\s+0\.0%\s+–/)
    const open = page.locator('td .open')
    assert.deepEqual(await open.allInnerTexts(), ['5.0%'])
    assert.match(await open.locator('..').getAttribute('title'), /2 of 40 players .* so far/)
  })
})

test('rolling retention counts players who came back later', { skip }, async () => {
  await withPage(PAGE, {}, async (page) => {
    await page.getByLabel('Kind').selectOption('rolling')
    await page.waitForURL(/kind=rolling/)
    await meanRow(page).getByText('5.0%', { exact: true }).first().waitFor()
    await page.getByLabel('Cells').selectOption('players')
    await page.waitForURL(/unit=players/)
    await page.goBack()
    await page.goBack()
    await meanRow(page).getByText('0.0%').nth(1).waitFor()
  })
})

test('a breakdown has a curve and a table for each value', { skip }, async () => {
  await withPage(`${PAGE}&by=country&of=FR`, {}, async (page) => {
    await page.getByRole('list').getByText('Germany').waitFor()
    assert.match(await meanRow(page).innerText(), /^Weighted mean\s+20/)
  })
})

test('without players the page says what to change, and an error names the field', { skip }, async () => {
  await withPage(`/retention?start=nothing_${run}`, {}, async (page) => {
    await page.getByText('No player did the start event in this period').waitFor()
  })
  await withPage(`${PAGE}&where=cohort,%3D,nosuch-${run}&kind=odd`, { expected: [400] }, async (page) => {
    await page.getByText('must be one of classic, rolling, bounded').waitFor()
    await page.getByRole('alert').filter({ hasText: 'cohort' }).waitFor()
  })
})

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the retention page fits and is accessible on a ${theme} ${device}`, { skip }, async () => {
    await withPage(`${PAGE}&by=country`, { theme, viewport }, async (page) => {
      await meanRow(page).waitFor()
      await assertLayout(page, `retention-${theme}-${device}`)
    })
  })
}
