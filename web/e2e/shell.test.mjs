/** Tests of the frame around the pages: menu, command palette, phone bar, addresses and signing in. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { assertAccessible, assertLayout, env, isRealServer, PHONE, screenshot, setup, waitUntil, withPage } from './harness.mjs'
import { skipIf } from '../../compat/skip.mjs'
import { run, seedBoard, seedVars } from './seed.mjs'

const [variable, board] = [`shell-speed-${run}`, `shell-stars-${run}`]
/** The names of all pages, from the registry. */
const NAMES = [...readFileSync(new URL('../src/pages.ts', import.meta.url), 'utf8').matchAll(/\{ name: '([^']+)'/g)].map(([, name]) => name)

setup(async () => {
  await seedVars(variable)
  await seedBoard(board)
})

const menu = (page) => page.getByRole('navigation', { name: 'Pages', exact: true })
const palette = (page) => page.getByRole('dialog', { name: 'Search' })
const options = (page) => palette(page).getByRole('option')

test('the menu lists every page once, in groups that stay collapsed', async () => {
  await withPage('/vars', {}, async (page) => {
    assert.equal((await menu(page).getByRole('link').allInnerTexts()).join(), NAMES.join())
    const group = menu(page).getByRole('button', { name: 'Operations' })
    assert.equal(await group.getAttribute('aria-expanded'), 'true')
    await group.press('Enter')
    await page.reload()
    assert.equal(await group.getAttribute('aria-expanded'), 'false')
    assert.equal(await menu(page).getByRole('link', { name: 'Hosts' }).count(), 0)
    await page.goto(`${env.server.url}/hosts`)
    await menu(page).getByRole('link', { name: 'Hosts' }).waitFor()
    assert.equal(await menu(page).getByRole('link', { name: 'Collectors' }).count(), 0)
    await group.press('Enter')
    await menu(page).getByRole('link', { name: 'Collectors' }).waitFor()
  })
})

test('on a phone every page can be reached and targets are large enough', async () => {
  await withPage('/vars', { viewport: PHONE }, async (page) => {
    const bar = page.getByRole('navigation', { name: 'Main pages' })
    for (const target of await bar.locator('a, button').all()) {
      const box = await target.boundingBox()
      assert.ok(box && box.height >= 44 && box.width >= 44 && box.y > 700 && box.x + box.width <= PHONE.width)
    }
    await bar.getByRole('button', { name: 'More' }).click()
    const sheet = page.getByRole('dialog', { name: 'All pages' })
    assert.equal((await sheet.getByRole('link').filter({ hasNotText: 'Play the demo game' }).allInnerTexts()).join(), NAMES.join())
    for (const link of await sheet.getByRole('link').all()) assert.ok((await link.boundingBox()).height >= 44)
    await assertLayout(page, 'more-dark-phone')
    await sheet.getByRole('link', { name: 'Hosts' }).click()
    await page.getByRole('heading', { level: 1, name: 'Hosts' }).waitFor()
    assert.equal(await sheet.count(), 0)
    await bar.getByRole('button', { name: 'Search' }).click()
    await palette(page).waitFor()
    await assertLayout(page, 'palette-dark-phone')
  })
})

test('the palette opens pages, leaderboards and variables by keyboard', async () => {
  await withPage('/', {}, async (page) => {
    await page.keyboard.press('Control+k')
    const field = palette(page).getByRole('combobox')
    await field.waitFor()
    await assertAccessible(page)
    await screenshot(page, 'palette-dark-desktop')
    await field.fill('lev')
    await field.press('ArrowDown')
    await field.press('ArrowUp')
    await field.press('Enter')
    await page.getByRole('heading', { level: 1, name: 'Levels' }).waitFor()
    assert.equal(await palette(page).count(), 0)

    await page.getByRole('button', { name: /^Search/ }).click()
    await field.fill(board)
    await options(page).filter({ hasText: board }).first().waitFor()
    await field.press('Enter')
    await waitUntil(page, () => new URL(page.url()).searchParams.get('board') === board)

    await page.keyboard.press('Control+k')
    assert.match(await options(page).first().innerText(), /Levels/, 'the view that was left last')
    await field.fill(`${variable} otter`)
    await options(page).filter({ hasText: variable }).click()
    await waitUntil(page, () => new URL(page.url()).searchParams.get('var') === variable)
  })
})

test('the selected result is named to screen readers and Escape returns the focus', async () => {
  await withPage('/vars', {}, async (page) => {
    const button = page.getByRole('button', { name: /^Search/ })
    await button.press('Enter')
    const field = palette(page).getByRole('combobox')
    await field.fill('vari')
    const active = await field.getAttribute('aria-activedescendant')
    assert.equal(await page.locator(`[id="${active}"]`).getAttribute('aria-selected'), 'true')
    await field.fill('no such thing at all')
    await palette(page).getByText('No results for').waitFor()
    await page.keyboard.press('Escape')
    await waitUntil(page, async () => (await palette(page).count()) === 0)
    assert.match(await page.evaluate(() => document.activeElement.innerText), /Search/)
  })
})

test('an action of the palette runs', async () => {
  await withPage('/vars', { theme: 'dark' }, async (page) => {
    await page.keyboard.press('Control+k')
    await palette(page).getByRole('combobox').fill('light theme')
    await page.keyboard.press('Enter')
    await waitUntil(page, () => page.evaluate(() => getComputedStyle(document.documentElement).colorScheme === 'light'))
  })
})

test('the address names the game, and an unknown game opens no other', async () => {
  await withPage('/vars', {}, async (page) => {
    await waitUntil(page, () => new URL(page.url()).searchParams.get('game') !== null)
    const game = new URL(page.url()).searchParams.get('game')
    await page.goto(`${env.server.url}/vars?game=nope`)
    await page.getByRole('heading', { level: 1, name: 'Game not found' }).waitFor()
    assert.equal(await page.getByText(variable).count(), 0)
    await assertLayout(page, 'game-not-found')
    await page.getByRole('button', { name: /^Open/ }).first().click()
    await page.getByRole('link', { name: `Edit ${variable}` }).waitFor()
    assert.equal(new URL(page.url()).searchParams.get('game'), game)
  })
})

test('an unknown address shows a page that says so, with status 404', { skip: skipIf(!isRealServer, 'server-only', 'the mock answers JSON') }, async () => {
  await withPage('/vars', { expected: [404] }, async (page) => {
    const response = await page.goto(`${env.server.url}/nosuch`)
    assert.equal(response.status(), 404)
    await page.getByRole('heading', { level: 1, name: 'Page not found' }).waitFor()
    await assertAccessible(page)
    await page.getByRole('link', { name: 'Open Live' }).click()
    await page.getByRole('heading', { level: 1, name: 'Live' }).waitFor()
  })
})

test('a page that asks to sign in is opened after signing in', async () => {
  const context = await env.browser.newContext()
  const page = await context.newPage()
  await page.goto(`${env.server.url}/vars?game=demo&var=${variable}`)
  await page.getByRole('heading', { level: 1, name: 'Sign in' }).waitFor()
  if (env.server.session) {
    const [name, value] = env.server.session.split('=')
    await context.addCookies([{ name, value, url: env.server.url }])
  }
  await page.goto(env.server.signInUrl ?? env.server.url)
  await page.getByRole('heading', { level: 1, name: variable }).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('var'), variable)
  await page.goto(env.server.url)
  await page.getByRole('heading', { level: 1, name: 'Live' }).waitFor()
  await context.close()
})

test('a sign-in link that is wrong or expired says so', { skip: skipIf(!isRealServer, 'server-only', 'the mock answers JSON') }, async () => {
  const context = await env.browser.newContext()
  const page = await context.newPage()
  await page.goto(`${env.server.url}/sign-in?token=wrong`)
  await page.getByRole('alert').getByText('This sign-in link is not valid').waitFor()
  await assertAccessible(page)
  await screenshot(page, 'sign-in-failed')
  await context.close()
})

test('without a network the page says so and keeps its data', async () => {
  await withPage('/vars', { expected: ['net::ERR_INTERNET_DISCONNECTED'] }, async (page) => {
    await page.getByRole('link', { name: `Edit ${variable}` }).waitFor()
    await page.context().setOffline(true)
    await page.getByText('You are offline.').waitFor()
    await page.getByRole('link', { name: `Edit ${variable}` }).waitFor()
    await assertAccessible(page)
    await page.context().setOffline(false)
    await page.getByText('You are offline.').waitFor({ state: 'detached' })
  })
})

for (const [path, name] of [
  ['/levels?mode=best', 'mode'],
  ['/levels?sort=%3Cscript%3E', 'sort'],
  [`/boards?board=${board}&window=year`, 'window'],
  ['/hosts?last=2y', 'last'],
]) {
  test(`${path} names the parameter with an unknown value and removes it`, async () => {
    await withPage(path, {}, async (page) => {
      const notice = page.getByRole('alert').filter({ hasText: 'unknown value' })
      await notice.getByText(name, { exact: true }).waitFor()
      await assertAccessible(page)
      await notice.getByRole('button', { name: 'Use the default' }).click()
      await notice.waitFor({ state: 'detached' })
      assert.equal(new URL(page.url()).searchParams.get(name), null)
    })
  })
}
