/** Tests of all pages: layout, accessibility, navigation, empty states and errors. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startMock } from '../mock/server.mjs'
import { packetsOf, run, seedBoard, seedLevel, seedVars, sendPackets } from './seed.mjs'
import { request, assertLayout, assertAccessible, withPage, waitUntil, setup, VIEWPORTS, env } from './harness.mjs'

const names = { variable: `speed-${run}`, board: `stars-${run}`, level: '', flow: '', end: `ann-${run}` }

setup(async () => {
  await seedVars(names.variable)
  await seedBoard(names.board)
  names.level = await seedLevel(`Otter creek ${run}`)
  const calls = Array.from({ length: 26 }, (_, i) => packetsOf(i ? `caller-${i}` : names.end, `room-${i % 7}`, 60, i % 9 ? 1 : 1 + i % 4))
  await sendPackets(calls.flat())
  names.flow = (await request('GET', `/v1/flows?end=${names.end}`)).flows[0].id
})

const PAGES = {
  vars: () => '/vars',
  variable: () => `/vars?var=${names.variable}`,
  'new variable': () => '/vars?new=1',
  boards: () => '/boards',
  board: () => `/boards?board=${names.board}`,
  'board settings': () => `/boards?board=${names.board}&settings=1`,
  levels: () => '/levels',
  level: () => `/levels?level=${names.level}`,
  flows: () => '/flows',
  flow: () => `/flows?flow=${names.flow}`,
  collectors: () => '/collectors',
  api: () => '/api',
}
/** An element that a page shows once it is loaded. */
const LOADED = {
  vars: (page) => page.getByRole('link', { name: `Edit ${names.variable}` }),
  boards: (page) => page.getByRole('link', { name: 'Stars of spring' }).first(),
  board: (page) => page.getByRole('cell', { name: '1,000 0' }),
  levels: (page) => page.getByRole('link', { name: `Otter creek ${run}` }).first(),
  level: (page) => page.getByRole('img', { name: /Picture of/ }),
  flows: (page) => page.getByRole('link', { name: / → / }).first(),
  flow: (page) => page.getByRole('heading', { level: 1, name: names.end }),
  collectors: (page) => page.getByText('statsd over UDP'),
  api: (page) => page.locator('summary').first(),
}

for (const [name, path] of Object.entries(PAGES)) {
  for (const [theme, device, viewport] of VIEWPORTS) {
    test(`the ${name} page fits and is accessible on a ${theme} ${device}`, async () => {
      await withPage(path(), { theme, viewport }, async (page) => {
        await LOADED[name]?.(page).waitFor()
        if (name === 'api') await page.locator('summary').nth(1).click()
        if (name === 'vars') await page.locator('summary').first().click()
        await assertLayout(page, `${name.replace(' ', '-')}-${theme}-${device}`)
      })
    })
  }
}

test('keyboard navigation opens pages without a reload and updates focus and title', async () => {
  await withPage('/', {}, async (page) => {
    await page.evaluate(() => (globalThis.sameDocument = true))
    const nav = page.getByRole('navigation', { name: 'Pages' })
    for (const name of ['Variables', 'Leaderboards', 'Levels', 'Flows', 'Collectors', 'Hosts', 'API', 'Live']) {
      await nav.getByRole('link', { name, exact: true }).press('Enter')
      await page.getByRole('heading', { level: 1, name, exact: true }).waitFor()
      assert.equal(await nav.locator('[aria-current="page"]').innerText(), name)
      assert.equal(await page.evaluate(() => document.activeElement?.id), 'content')
      assert.match(await page.title(), new RegExp(`^${name} · `))
    }
    await page.goBack()
    await page.getByRole('heading', { level: 1, name: 'API' }).waitFor()
    assert.equal(await page.evaluate(() => globalThis.sameDocument), true)
  })
})

test('a modified click opens a new tab', async () => {
  await withPage('/', {}, async (page) => {
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Variables' })
    const [tab] = await Promise.all([page.context().waitForEvent('page'), link.click({ modifiers: ['ControlOrMeta'] })])
    await tab.getByRole('heading', { level: 1, name: 'Variables' }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/')
  })
})

test('the dashboard links to the demo game', async () => {
  await withPage('/vars', {}, async (page) => {
    const link = page.getByRole('link', { name: /Play the demo game/ })
    assert.equal(await link.getAttribute('href'), '/play/')
    assert.equal(await link.getAttribute('target'), '_blank')
  })
})

test('the API page needs no session and other pages ask to sign in', async () => {
  const page = await env.browser.newPage()
  await page.goto(`${env.server.url}/api`)
  await page.getByRole('heading', { level: 1, name: 'API' }).waitFor()
  await page.locator('summary').first().waitFor()
  await assertAccessible(page)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Variables' }).click()
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  await page.close()
})

describe('empty states', () => {
  const TEXTS = {
    '/vars': 'No variables yet',
    '/boards': 'No leaderboards yet',
    '/levels': 'No levels yet',
    '/flows': 'No flows yet',
    '/collectors': 'No collectors yet',
    '/hosts': 'No hosts yet',
  }
  let empty
  before(async () => (empty = await startMock({ empty: true })))
  after(() => empty?.close())

  for (const [path, text] of Object.entries(TEXTS)) {
    test(`${path} explains what to do`, async () => {
      const original = env.server
      env.server = { ...original, session: undefined, ...empty }
      try {
        await withPage(path, {}, async (page) => {
          await page.getByText(text).waitFor()
          await assertAccessible(page)
        })
      } finally {
        env.server = original
      }
    })
  }
})

for (const [path, api] of [
  ['/vars', '**/v1/vars:definitions*'],
  ['/boards', '**/v1/boards?*'],
  ['/levels', '**/v1/levels?*'],
  ['/flows', '**/v1/flows/ended*'],
  ['/collectors', '**/v1/collectors*'],
  ['/hosts', '**/v1/dimensions*'],
]) {
  test(`${path} shows a server error and retries`, async () => {
    await withPage('/api', { expected: [503] }, async (page) => {
      const fail = (route) =>
        route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"the disk is full"}' })
      await page.route(api, fail)
      await page.goto(env.server.url + path)
      await page.getByText('The disk is full.').first().waitFor()
      await assertAccessible(page)
      const again = page.getByRole('button', { name: 'Try again' })
      await Promise.all([page.waitForRequest(api), again.first().click()])
      await page.unroute(api)
      // Pages that refresh by themselves may remove the button first.
      await waitUntil(page, async () => {
        await again.evaluateAll((buttons) => buttons[0]?.click())
        return (await page.getByText('The disk is full.').count()) === 0
      })
    })
  })
}
