/** What holds of every page: whole, readable and quiet in every view, reached by keyboard, kind when it is empty. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { startMock } from '../mock/server.mjs'
import { packetsOf, run, seedBoard, seedLevel, seedVars, sendPackets } from './seed.mjs'
import { ask, isWholeAndReadable, nothingIsHardToRead, onPage, PHONE, useWorld, VIEWS, world } from './world.mjs'

const names = { variable: `speed-${run}`, board: `stars-${run}`, level: '', flow: '', end: `ann-${run}` }

useWorld(async () => {
  await seedVars(names.variable)
  await seedBoard(names.board)
  names.level = await seedLevel(`Otter creek ${run}`)
  const calls = Array.from({ length: 26 }, (_, i) => packetsOf(i ? `caller-${i}` : names.end, `room-${i % 7}`, 60, i % 9 ? 1 : 1 + i % 4))
  await sendPackets(calls.flat())
  names.flow = (await ask('GET', `/v1/flows?end=${names.end}`)).flows[0].id
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
/** What a page shows once it has been read. */
const SEEN = {
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
  for (const [theme, device, viewport] of VIEWS) {
    test(`${name} is whole, readable and quiet on a ${theme} ${device}`, async () => {
      await onPage(path(), { theme, viewport }, async (page) => {
        await SEEN[name]?.(page).waitFor()
        if (name === 'api') await page.locator('summary').nth(1).click()
        if (name === 'vars') await page.locator('summary').first().click()
        await isWholeAndReadable(page, `${name.replace(' ', '-')}-${theme}-${device}`)
      })
    })
  }
}

test('pages are reached by keyboard without loading anew, and say where one is', async () => {
  await onPage('/', {}, async (page) => {
    await page.evaluate(() => (globalThis.sameDocument = true))
    const nav = page.getByRole('navigation', { name: 'Pages' })
    for (const name of ['Vars', 'Boards', 'Levels', 'Flows', 'Collectors', 'Hosts', 'API', 'Live']) {
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

test('a link opened in a new tab is left to the browser', async () => {
  await onPage('/', {}, async (page) => {
    const link = page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Vars' })
    const [tab] = await Promise.all([page.context().waitForEvent('page'), link.click({ modifiers: ['ControlOrMeta'] })])
    await tab.getByRole('heading', { level: 1, name: 'Vars' }).waitFor()
    assert.equal(new URL(page.url()).pathname, '/')
  })
})

test('on a phone the pages are at the thumb, large enough to hit', async () => {
  await onPage('/vars', { viewport: PHONE }, async (page) => {
    const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').all()
    assert.equal(links.length, 8)
    for (const link of links) {
      await link.scrollIntoViewIfNeeded()
      const box = await link.boundingBox()
      assert.ok(box && box.height >= 44 && box.width >= 44 && box.y > 700 && box.x + box.width <= PHONE.width)
    }
    await links[2].tap?.().catch(() => links[2].click())
    await page.getByRole('heading', { level: 1, name: 'Boards' }).waitFor()
  })
})

test('the demo game can be played from its dashboard', async () => {
  await onPage('/vars', {}, async (page) => {
    const link = page.getByRole('link', { name: /Play the demo game/ })
    assert.equal(await link.getAttribute('href'), '/play/')
    assert.equal(await link.getAttribute('target'), '_blank')
  })
})

test('the API is read without signing in, and the other pages ask for it', async () => {
  const page = await world.browser.newPage()
  await page.goto(`${world.server.url}/api`)
  await page.getByRole('heading', { level: 1, name: 'API' }).waitFor()
  await page.locator('summary').first().waitFor()
  await nothingIsHardToRead(page)
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Vars' }).click()
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  await page.close()
})

describe('without anything made yet', () => {
  const SAYS = {
    '/vars': 'No variables yet',
    '/boards': 'No boards yet',
    '/levels': 'No levels yet',
    '/flows': 'No flow has been seen yet',
    '/collectors': 'No collectors.',
    '/hosts': 'No host yet',
  }
  let empty
  before(async () => (empty = await startMock({ empty: true })))
  after(() => empty?.close())

  for (const [path, text] of Object.entries(SAYS)) {
    test(`${path} says what to do`, async () => {
      const kept = world.server
      world.server = { ...kept, ...empty }
      try {
        await onPage(path, {}, async (page) => {
          await page.getByText(text).waitFor()
          await nothingIsHardToRead(page)
        })
      } finally {
        world.server = kept
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
  test(`${path} says when the server fails, and tries again`, async () => {
    await onPage('/api', { expected: [503] }, async (page) => {
      const broken = (route) =>
        route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"the disk is full"}' })
      await page.route(api, broken)
      await page.goto(world.server.url + path)
      await page.getByText('The disk is full.').first().waitFor()
      await nothingIsHardToRead(page)
      await page.unroute(api)
      await page.getByRole('button', { name: 'Try again' }).first().click()
      await page.getByText('The disk is full.').first().waitFor({ state: 'detached' })
    })
  })
}
