/** Tests of the Funnels page against a server: templates, steps, drops, breakdown and states. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { levelHistory, sendHistory } from './seed-history.mjs'
import { run } from './seed.mjs'
import { assertLayout, isRealServer, setup, VIEWPORTS, withPage } from './harness.mjs'

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const START = `start_${run}`
const steps = (count, event = START) => Array.from({ length: count }, (_, i) => `s=${event};level,=,${i + 1}`).join('&')
/** Only the players of this run. */
const FUNNEL = `/funnels?${steps(4)}`

setup(async () => {
  if (isRealServer) await sendHistory([...levelHistory(START), ...levelHistory()])
})

const chart = (page) => page.getByRole('region', { name: /^(Funnel|Level progression)$/ })

test('where players quit is found in three clicks', { skip }, async () => {
  await withPage('/', {}, async (page) => {
    await page.getByRole('link', { name: 'Funnels' }).first().click()
    await page.getByRole('link', { name: /^Level progression/ }).click()
    const drop = page.getByRole('button', { name: /largest drop: players who did not reach/ })
    await drop.click()
    await page.getByText(/of [0-9,]+ players did level_start/).waitFor()
  })
})

test('steps show their players, the conversion and the drops', { skip }, async () => {
  await withPage(FUNNEL, {}, async (page) => {
    await page.getByText('of 40 players did all 4 steps').waitFor()
    const text = await chart(page).innerText()
    assert.match(text, /37\.5%/)
    assert.match(text, /40 players[\s\S]*100\.0%[\s\S]*50\.0%[\s\S]*37\.5%/)
    await page.getByRole('button', { name: /^−20 50.0%, largest drop/ }).waitFor()
    assert.match(await page.getByRole('row', { name: /level is 3/ }).innerText(), /20\s+50\.0%\s+50\.0%\s+20\s+1h/)
  })
})

test('steps are added, filtered, moved and removed, and Back undoes each', { skip }, async () => {
  await withPage(`/funnels?s=${START};level,=,1`, {}, async (page) => {
    await page.getByRole('button', { name: 'Step 2: Add a step' }).click()
    await page.getByRole('combobox', { name: 'Step 2' }).fill(START)
    await page.getByRole('option', { name: START }).first().click()
    await page.getByText('of 40 players did all 2 steps').waitFor()
    await page.getByRole('button', { name: 'Move step 2 up' }).click()
    await page.waitForURL((url) => url.searchParams.getAll('s').join() === `${START},${START};level,=,1`)
    await page.goBack()
    await page.waitForURL((url) => url.searchParams.getAll('s').join() === `${START};level,=,1,${START}`)
    await page.getByRole('button', { name: 'Remove step 2' }).click()
    await page.getByText('A funnel needs at least two steps').waitFor()
  })
})

test('a breakdown adds up to all players', { skip }, async () => {
  await withPage(`${FUNNEL}&by=country`, {}, async (page) => {
    await page.getByRole('row', { name: /^France/ }).waitFor()
    const cells = await page.getByRole('row').getByRole('cell').allInnerTexts()
    assert.equal(Number(cells[0]) + Number(cells[5]), 40)
  })
})

test('a filter without players says what to change', { skip }, async () => {
  await withPage(`${FUNNEL}&where=country,=,AQ`, {}, async (page) => {
    await page.getByText('No player did the first step in this period').waitFor()
  })
})

test('an error names the field, and an unusable parameter is named', { skip }, async () => {
  await withPage(`/funnels?s=a&s=b&where=cohort,%3D,nosuch-${run}&window=soon`, { expected: [400] }, async (page) => {
    await page.getByText('must be a duration such as 30m').waitFor()
    await page.getByRole('alert').filter({ hasText: 'cohort' }).waitFor()
  })
})

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the funnels page fits and is accessible on a ${theme} ${device}`, { skip }, async () => {
    await withPage('/funnels', { theme, viewport }, async (page) => {
      await page.getByRole('link', { name: /^Level progression/ }).waitFor()
      await assertLayout(page, `funnels-new-${theme}-${device}`)
    })
    await withPage(`${FUNNEL}&by=country`, { theme, viewport }, async (page) => {
      await page.getByText('players did all 4 steps').waitFor()
      await assertLayout(page, `funnels-${theme}-${device}`)
    })
  })
}
