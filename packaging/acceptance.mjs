/**
 * The browser of `acceptance.py`: node acceptance.mjs ACTION FILE, where the file holds the arguments as JSON.
 *
 * Chromium trusts the certificates in its home folder and resolves the server's name to this machine. It ignores no error.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { chromium } = createRequire(new URL('../web/package.json', import.meta.url))('playwright-core')

const [action, file] = process.argv.slice(2)
const { profile, url, link, key, event } = JSON.parse(readFileSync(file, 'utf8'))
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    `--host-resolver-rules=MAP ${new URL(url).hostname} 127.0.0.1`,
  ],
})
const actions = { refused, use, return: reopen }
try {
  await actions[action]()
} finally {
  await context.close()
}

/** The certificate of an unknown authority is an error. */
async function refused() {
  const page = await context.newPage()
  await assert.rejects(page.goto(url), /ERR_CERT_AUTHORITY_INVALID/)
}

/** Signs in with the link, sends three events from a page of the server, and sees them on the dashboard. */
async function use() {
  const dashboard = await context.newPage()
  const response = await dashboard.goto(url.replace('https:', 'http:'))
  assert.equal(new URL(response.url()).protocol, 'https:')
  await dashboard.getByRole('heading', { name: 'Sign in' }).waitFor()
  await dashboard.goto(link)
  await dashboard.getByRole('navigation', { name: 'Pages' }).waitFor()
  await dashboard.getByText('Connected').waitFor()
  await play()
  await dashboard.bringToFront()
  await dashboard.getByRole('region', { name: 'Recent events', exact: true }).getByText(event).first().waitFor()
  await dashboard.getByRole('region', { name: 'Top events', exact: true }).getByText(event).first().waitFor()
}

/** Sends three events by the client that the server serves, from a page of the same origin. */
async function play() {
  const page = await context.newPage()
  const errors = []
  page.on('console', (message) => message.type() === 'error' && errors.push(message.text()))
  await page.goto(`${url}/play/`)
  await page.addScriptTag({ url: '/sdk/playmeter.js' })
  await page.evaluate(
    async ([url, key, event]) => {
      const game = new globalThis.Playmeter({ url, key, sessions: false })
      for (const value of [1, 2, 3]) game.track(event, { value })
      await game.flush()
    },
    [url, key, event],
  )
  assert.deepEqual(errors, [])
  await page.close()
}

/** The session of the earlier visit is valid. */
async function reopen() {
  const page = await context.newPage()
  await page.goto(url)
  await page.getByRole('navigation', { name: 'Pages' }).waitFor()
  await page.getByText('Connected').waitFor()
}
