/** Tests of the SQL page. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { skipIf } from '../../compat/skip.mjs'
import { assertAccessible, assertLayout, env, isRealServer, setup, VIEWPORTS, waitUntil, withPage } from './harness.mjs'

setup()

const skip = skipIf(isRealServer, 'mock-only', 'a server has no library for SQL unless one is added')
const editor = (page) => page.getByRole('textbox', { name: 'SQL' })
const rows = (page) => page.getByRole('region', { name: 'Rows, table' })

/** Replaces the text of the editor. */
async function write(page, text) {
  await editor(page).click()
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText(text)
}

for (const [theme, device, viewport] of VIEWPORTS) {
  test(`the page fits and is accessible on a ${theme} ${device}`, { skip }, async () => {
    const q = encodeURIComponent("SELECT date_trunc('day', ts_utc) AS day, count(*) AS n FROM events GROUP BY day")
    await withPage(`/sql?q=${q}&view=chart`, { theme, viewport }, async (page) => {
      await page.getByRole('application').locator('canvas').waitFor()
      await editor(page).waitFor()
      await assertLayout(page, `sql-chart-${theme}-${device}`)
      await page.getByRole('button', { name: 'Table', exact: true }).click()
      await rows(page).waitFor()
      await assertLayout(page, `sql-${theme}-${device}`)
    })
  })
}

test('Ctrl+Enter runs the statement at the cursor, and a selection runs alone', { skip }, async () => {
  await withPage('/sql', {}, async (page) => {
    await write(page, "SELECT event, count(*) AS n FROM events GROUP BY event;\nSELECT ';' AS a FROM range(5)")
    await page.keyboard.press('Control+Home')
    await page.keyboard.press('Control+Enter')
    await rows(page).getByRole('cell', { name: 'start' }).waitFor()
    assert.match(new URL(page.url()).searchParams.get('q'), /^SELECT event.*GROUP BY event$/)
    await page.keyboard.press('Control+End')
    await page.keyboard.press('Control+Enter')
    await rows(page).getByRole('columnheader', { name: 'text' }).waitFor()
    assert.match(await editor(page).innerText(), /SELECT event/)
    await page.goBack()
    await rows(page).getByRole('cell', { name: 'start' }).waitFor()
  })
})

test('a long result says that it is cut, and its rows are shown as text', { skip }, async () => {
  await withPage('/sql?q=SELECT * FROM range(20000)', {}, async (page) => {
    await page.getByText('First 10,000 rows: the result is cut.').waitFor()
    await rows(page).getByRole('cell', { name: '<b>row 7</b>' }).waitFor()
    assert.equal(await rows(page).getByRole('row').count(), 201)
    await page.getByRole('button', { name: /^Show 200 more/ }).click()
    await waitUntil(page, async () => (await rows(page).getByRole('row').count()) === 401)
  })
})

test('a wrong statement shows the error of the server, and no rows are said to be none', { skip }, async () => {
  await withPage('/sql', { expected: [400] }, async (page) => {
    await editor(page).waitFor()
    await write(page, 'SELECT * FROM nosuch')
    await page.getByRole('button', { name: 'Run' }).click()
    await page.getByRole('alert').filter({ hasText: 'nosuch does not exist' }).waitFor()
    await assertAccessible(page)
    await write(page, 'SELECT event FROM events WHERE false')
    await page.getByRole('button', { name: 'Run' }).click()
    await page.getByText('The query returned no rows.').waitFor()
  })
})

test('names of tables and columns are completed', { skip }, async () => {
  await withPage('/sql', {}, async (page) => {
    await editor(page).waitFor()
    await page.getByRole('button', { name: 'props.price' }).waitFor()
    await write(page, '')
    await page.keyboard.type('SELECT * FROM sess')
    await page.getByRole('option', { name: 'sessions' }).waitFor()
    await page.keyboard.press('Escape')
    await write(page, 'SELECT ')
    await page.getByRole('button', { name: 'props.price' }).click()
    assert.match(await editor(page).innerText(), /SELECT "props\.price"/)
  })
})

test('examples and recent queries are kept in a menu', { skip }, async () => {
  await withPage('/sql', {}, async (page) => {
    await editor(page).waitFor()
    await page.getByRole('button', { name: 'Examples and recent queries' }).click()
    await page.getByRole('button', { name: 'Most frequent events' }).click()
    await page.getByRole('button', { name: 'Run' }).click()
    await rows(page).getByRole('cell', { name: 'start' }).waitFor()
    await page.getByRole('button', { name: 'Chart', exact: true }).click()
    await page.getByRole('listitem').filter({ hasText: 'win' }).filter({ hasText: '530' }).waitFor()
    await page.getByRole('button', { name: 'Examples and recent queries' }).click()
    await page.getByRole('button', { name: /^SELECT event, count/ }).waitFor()
    await assertAccessible(page)
  })
})

test('without the library the page says how to add it', async () => {
  await withPage('/', { expected: [501] }, async (page) => {
    const detail = 'put libduckdb.so beside the program of the server'
    await page.route('**/v1/sql*', (route) => route.fulfill({ status: 501, contentType: 'application/problem+json', body: JSON.stringify({ title: 'Not available', detail }) }))
    await page.goto(`${env.server.url}/sql`)
    await page.getByText(/Put libduckdb\.so beside/).waitFor()
    await editor(page).waitFor()
    await assertAccessible(page)
  })
})
