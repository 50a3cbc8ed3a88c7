/**
 * The game in a browser, with a server behind it.
 *
 * PLAYMETER_URL, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY say which; without them the mock is started
 * and `npm run build` comes first. CHROMIUM names the browser, PLAYMETER_SHOTS a folder for pictures.
 */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { PUBLIC_KEY, startMock } from '../../../sdk/js/mock/server.mjs'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const DIST = fileURLToPath(new URL('../dist/', import.meta.url))
const SHOTS = process.env.PLAYMETER_SHOTS

export function startBrowser() {
  const args = [
    '--no-sandbox',
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ]
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args })
}

/** The mock or the real one, with the same words for both. */
export async function chooseServer() {
  const { PLAYMETER_URL: url, PLAYMETER_SECRET_KEY: secret } = process.env
  return url ? real(url.replace(/\/$/, ''), secret) : mock()
}

async function mock() {
  const config = { url: '', public_key: PUBLIC_KEY, game: 'demo' }
  const { game, setVars, ...rest } = await startMock({
    folders: { '/play/config.json': config, '/play/': DIST },
  })
  const of = (player) => game.events.filter((event) => event.player === player)
  return {
    ...rest,
    events: async (player) =>
      of(player).map(({ event, props }) => (props?.state ? `${event} ${props.state}` : event)),
    setVar: async (name, value) => setVars({ ...game.vars, [name]: value }),
  }
}

async function real(url, secret) {
  const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' }
  const put = async (path, value) => {
    const answer = await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(value) })
    assert.ok(answer.ok, await answer.text())
  }
  for (const key of ['first-run', 'all-stars', 'alphabet'])
    await put(`/v1/achievements/${key}`, { name: key })
  return { url, close() {}, setVar: (name, value) => put(`/v1/vars/${name}`, { value }) }
}

/** Opens the game; whatever the browser complains of fails the test. */
export async function playing(
  browser,
  server,
  { theme = 'light', viewport = { width: 1280, height: 800 }, calm = false, alone = false } = {},
  check,
) {
  const context = await browser.newContext({
    viewport,
    colorScheme: theme,
    reducedMotion: calm ? 'reduce' : 'no-preference',
  })
  await context.addInitScript(friendAndVoice)
  const page = await context.newPage()
  page.setDefaultTimeout(8_000)
  const complaints = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (said) => said.type() === 'error' && !alone && complaints.push(said.text()))
  if (alone) await page.route(/config\.json|\/v1\//, (route) => route.abort())
  await page.goto(`${server.url}/play/`)
  await page.getByRole('button', { name: 'Play', exact: true }).waitFor()
  try {
    await check(page)
  } finally {
    await context.close()
  }
  assert.deepEqual(complaints, [])
}

/** Runs in the page before the game: a friend who is always the same, and a voice that is written down. */
function friendAndVoice() {
  if (location.protocol === 'about:') return
  if (!localStorage.getItem('letters:friend'))
    localStorage.setItem('letters:friend', '{"animal":"Fox","word":"Brave"}')
  globalThis.spoken = []
  speechSynthesis.speak = (utterance) => {
    spoken.push(utterance.text)
    utterance.onstart?.()
  }
}

/** What the row shows, and which letter is missing from it. */
export async function puzzle(page) {
  const [row, choices, over] = await page.evaluate(() => [
    ...['.row .tile', '.choice'].map((kind) => [...document.querySelectorAll(kind)].map((one) => one.textContent)),
    document.querySelector('.end') !== null,
  ])
  const gap = row.indexOf('?')
  const known = row[gap ? gap - 1 : 1]
  const missing = gap < 0 ? undefined : String.fromCharCode(known.charCodeAt(0) + (gap ? 1 : -1))
  return { row, choices, missing, over }
}

/** Waits for the question after `before`, or for the end of the run. */
export async function question(page, before) {
  for (const end = Date.now() + 12_000; Date.now() < end; await page.waitForTimeout(50)) {
    const asked = await puzzle(page)
    if (asked.over || (asked.missing && asked.missing !== before?.missing)) return asked
  }
  assert.fail('no other question came')
}

/** Plays a run to its end with the keyboard; says how many questions there were. */
export async function playRun(page, wrongFirst = 0) {
  let asked
  for (let questions = 0; ; questions++) {
    asked = await question(page, asked)
    if (asked.over) return questions
    const wrong = asked.choices.filter((letter) => letter !== asked.missing)
    for (const letter of wrong.slice(0, wrongFirst)) await page.keyboard.press(letter)
    await page.keyboard.press(asked.missing.toLowerCase())
  }
}

/** WCAG 2 A and AA, contrast among them, by axe. */
export async function nothingIsHardToUse(page) {
  await page.evaluate(AXE)
  const { violations } = await page.evaluate(() =>
    globalThis.axe.run({
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
    }),
  )
  const found = violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target}: ${failureSummary}`),
  )
  assert.deepEqual(found, [])
}

export async function shoot(page, name) {
  if (!SHOTS) return
  mkdirSync(SHOTS, { recursive: true })
  await page.screenshot({ path: join(SHOTS, `${name}.png`) })
}
