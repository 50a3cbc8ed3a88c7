/**
 * The test harness: the game in a browser, with a server.
 *
 * PLAYMETER_URL, PLAYMETER_PUBLIC_KEY and PLAYMETER_SECRET_KEY select a server; by default the mock is started,
 * which needs `npm run build` first. CHROMIUM is the path of the browser, PLAYMETER_SHOTS a folder for screenshots.
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

/** Starts the mock or connects to a real server; both have the same methods. */
export async function chooseServer() {
  const { PLAYMETER_URL: url, PLAYMETER_SECRET_KEY: secret } = process.env
  return url ? real(url.replace(/\/$/, ''), secret) : mock()
}

async function mock() {
  const config = { url: '', public_key: PUBLIC_KEY, game: 'demo' }
  const { game, setVars, ...rest } = await startMock({
    folders: { '/play/config.json': config, '/play/': DIST },
  })
  const eventsOf = (player) => game.events.filter((event) => event.player === player)
  return {
    ...rest,
    events: async (player) =>
      eventsOf(player).map(({ event, props }) => (props?.state ? `${event} ${props.state}` : event)),
    setVar: async (name, value) => setVars({ ...game.vars, [name]: value }),
  }
}

async function real(url, secret) {
  const headers = { Authorization: `Bearer ${secret}`, 'Content-Type': 'application/json' }
  const put = async (path, value) => {
    const response = await fetch(url + path, { method: 'PUT', headers, body: JSON.stringify(value) })
    assert.ok(response.ok, await response.text())
  }
  for (const key of ['first-run', 'all-stars', 'alphabet'])
    await put(`/v1/achievements/${key}`, { name: key })
  return { url, close() {}, setVar: (name, value) => put(`/v1/vars/${name}`, { value }) }
}

/** Opens the game. An error in the browser fails the test. */
export async function withGame(
  browser,
  server,
  { theme = 'light', viewport = { width: 1280, height: 800 }, reducedMotion = false, offline = false } = {},
  check,
) {
  const context = await browser.newContext({
    viewport,
    colorScheme: theme,
    reducedMotion: reducedMotion ? 'reduce' : 'no-preference',
  })
  await context.addInitScript(friendAndVoice)
  const page = await context.newPage()
  page.setDefaultTimeout(8_000)
  const errors = []
  page.on('pageerror', (error) => errors.push(error.message))
  page.on('console', (message) => message.type() === 'error' && !offline && errors.push(message.text()))
  if (offline) await page.route(/config\.json|\/v1\//, (route) => route.abort())
  await page.goto(`${server.url}/play/`)
  await page.getByRole('button', { name: 'Play', exact: true }).waitFor()
  try {
    await check(page)
  } finally {
    await context.close()
  }
  assert.deepEqual(errors, [])
}

/** Runs in the page before the game: sets a fixed friend and records speech. */
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

/** Returns the row, the choices and the missing letter, or that the run is over. */
export async function readPuzzle(page) {
  const [row, choices, over] = await page.evaluate(() => [
    ...['.row .tile', '.choice'].map((kind) => [...document.querySelectorAll(kind)].map((one) => one.textContent)),
    document.querySelector('.end') !== null,
  ])
  const gap = row.indexOf('?')
  const known = row[gap ? gap - 1 : 1]
  const missing = gap < 0 ? undefined : String.fromCharCode(known.charCodeAt(0) + (gap ? 1 : -1))
  return { row, choices, missing, over }
}

/** Waits for the puzzle after `before`, or for the end of the run. */
export async function waitForPuzzle(page, before) {
  for (const end = Date.now() + 12_000; Date.now() < end; await page.waitForTimeout(50)) {
    const puzzle = await readPuzzle(page)
    if (puzzle.over || (puzzle.missing && puzzle.missing !== before?.missing)) return puzzle
  }
  assert.fail('the next puzzle did not appear')
}

/** Plays a run to its end by keyboard; returns the number of puzzles. */
export async function playRun(page, wrongFirst = 0) {
  let puzzle
  for (let puzzles = 0; ; puzzles++) {
    puzzle = await waitForPuzzle(page, puzzle)
    if (puzzle.over) return puzzles
    const wrong = puzzle.choices.filter((letter) => letter !== puzzle.missing)
    for (const letter of wrong.slice(0, wrongFirst)) await page.keyboard.press(letter)
    await page.keyboard.press(puzzle.missing.toLowerCase())
  }
}

/** Asserts WCAG 2 A and AA, including contrast, with axe. */
export async function assertAccessible(page) {
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

export async function screenshot(page, name) {
  if (!SHOTS) return
  mkdirSync(SHOTS, { recursive: true })
  await page.screenshot({ path: join(SHOTS, `${name}.png`) })
}
