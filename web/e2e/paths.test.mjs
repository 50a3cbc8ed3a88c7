/** Tests of the Paths page against a server: columns, recentring, leaving out, funnel and states. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { sendHistory } from './seed-history.mjs'
import { run } from './seed.mjs'
import { assertLayout, isRealServer, PHONE, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'

const skip = skipIf(!isRealServer, 'server-only', 'the mock answers no questions')
const [START, AD, WIN, SHOP] = ['a', 'ad', 'win', 'shop'].map((name) => `path_${name}_${run}`)
const PAGE = `/paths?event=${START}`

/** 20 players: an ad, then half of them win and half open the shop. */
function walks() {
  const names = (i) => [START, AD, i % 2 ? WIN : SHOP]
  return Array.from({ length: 20 }, (_, i) => names(i).map((event, at) => ({ event, player: `path-${run}-${i}`, hoursAgo: 20 - at }))).flat()
}

setup(async () => {
  if (isRealServer) await sendHistory(walks())
})

const chart = (page) => page.getByRole('region', { name: /^Paths / })
const items = (page) => chart(page).getByRole('listitem')

test('events after another are in columns with their share of all paths', { skip }, async () => {
  await withPage(PAGE, {}, async (page) => {
    await chart(page).getByText('2nd event after').first().waitFor()
    const texts = (await items(page).allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
    assert.deepEqual(texts.sort(), [`${AD} 100.0% 20`, `${SHOP} 50.0% 10`, `${START} 100.0% 20`, `${WIN} 50.0% 10`].sort())
    await chart(page).getByText('20 paths: each occurrence').waitFor()
  })
})

test('a click on an event starts the paths from it, and Back returns', { skip }, async () => {
  await withPage(PAGE, {}, async (page) => {
    await chart(page).getByRole('link', { name: AD }).click()
    await page.getByRole('heading', { name: `Paths after ${AD}` }).waitFor()
    await page.goBack()
    await page.getByRole('heading', { name: `Paths after ${START}` }).waitFor()
  })
})

test('an event is left out and shown again', { skip }, async () => {
  await withPage(PAGE, {}, async (page) => {
    await page.getByRole('button', { name: `More about ${AD}, 1st event after` }).click()
    await page.getByRole('link', { name: `Leave out ${AD}` }).click()
    await waitUntil(page, async () => (await items(page).count()) === 3)
    await page.getByRole('link', { name: `${AD}: show again` }).click()
    await waitUntil(page, async () => (await items(page).count()) === 4)
  })
})

test('a funnel is made of the start and an event, also before it', { skip }, async () => {
  await withPage(`/paths?event=${WIN}&direction=before`, {}, async (page) => {
    await chart(page).getByText('2nd event before').first().waitFor()
    await page.getByRole('button', { name: `More about ${START}, 2nd event before` }).click()
    await page.getByRole('link', { name: 'Make a funnel' }).click()
    await page.getByText('of 20 players did all 2 steps').waitFor()
    assert.deepEqual(new URL(page.url()).searchParams.getAll('s'), [START, WIN])
  })
})

test('an event without occurrences says what to do, and unusable parameters are named', { skip }, async () => {
  await withPage(`/paths?event=nothing_${run}&depth=99`, {}, async (page) => {
    await page.getByText('The event did not occur in this period').waitFor()
    await page.getByText('must be a number from 1 to 10').waitFor()
  })
})

test('a phone shows an indented list', { skip }, async () => {
  await withPage(PAGE, { viewport: PHONE }, async (page) => {
    await chart(page).getByRole('link', { name: WIN }).click()
    await page.getByRole('heading', { name: `Paths after ${WIN}` }).waitFor()
  })
})

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the paths page fits and is accessible on a ${theme} ${device}`, { skip }, async () => {
    await withPage(PAGE, { theme, viewport }, async (page) => {
      await chart(page).getByText('20 paths: each occurrence').waitFor()
      await assertLayout(page, `paths-${theme}-${device}`)
    })
  })
}
