/** The Hosts page in a real browser; see `world.mjs` for which server. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { run } from './seed.mjs'
import { isReal, isWholeAndReadable, onPage, until, useWorld, VIEWS, world } from './world.mjs'

/** The host of the tests: sent to a real server as its agent would, invented by the mock. */
const HOST = isReal ? `web-${run}` : 'db-1'

/** Of a week on a wide screen, rounded up: an hour may end while a test runs. */
const AN_HOUR_PX = 8

useWorld(async () => {
  if (isReal) await send(37.5)
})

for (const [theme, device, viewport] of VIEWS) {
  test(`all hosts are whole, readable and quiet on a ${theme} ${device}`, async () => {
    await onPage('/hosts', { theme, viewport }, async (page) => {
      await card(page).waitFor()
      await isWholeAndReadable(page, `hosts-${theme}-${device}`)
    })
  })

  test(`one host is whole, readable and quiet on a ${theme} ${device}`, async () => {
    await onPage(`/hosts?host=${HOST}`, { theme, viewport }, async (page) => {
      await page.getByRole('rowheader', { name: '/', exact: true }).waitFor()
      await page.getByRole('heading', { name: 'PostgreSQL', exact: true }).waitFor()
      await page.getByText('The agent cannot read it').waitFor()
      await isWholeAndReadable(page, `host-${theme}-${device}`)
    })
  })
}

test('a host is opened by its card, and left by the way back', async () => {
  await onPage('/hosts', {}, async (page) => {
    await page.getByRole('link', { name: HOST }).press('Enter')
    await page.getByRole('heading', { level: 1, name: HOST }).waitFor()
    await page.getByRole('region', { name: 'Processors' }).locator('canvas').waitFor()
    await page.getByRole('link', { name: 'Hosts', exact: true }).first().click()
    await page.getByRole('heading', { level: 1, name: 'Hosts' }).waitFor()
  })
})

test('how far back is chosen in the address, and every chart has its table and its file', async () => {
  await onPage(`/hosts?host=${HOST}`, {}, async (page) => {
    await page.getByRole('link', { name: '24 hours' }).click()
    await until(page, () => page.url().includes('last=24h'))
    await page.getByRole('button', { name: 'Memory: view as table', exact: true }).click()
    await page.getByRole('region', { name: 'Memory, table' }).waitFor()
    const [file] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('button', { name: 'Processors: download CSV' }).click(),
    ])
    const [head] = readFileSync(await file.path(), 'utf8').split('\r\n')
    assert.equal(head, 'Minute,User,System,Waiting for disks,Stolen')
  })
})

test('a day begins on the axis where it does in the game, wherever the browser is', async () => {
  const [west, east] = [await daysDrawn('America/Los_Angeles'), await daysDrawn('Asia/Tokyo')]
  assert.ok(Object.keys(west).length >= 5, `few days: ${JSON.stringify(west)}`)
  assert.deepEqual(Object.keys(west), Object.keys(east))
  for (const day in west) assert.ok(Math.abs(west[day] - east[day]) < AN_HOUR_PX, `${day}: ${west[day]} and ${east[day]}`)
})

test('a question that fails says why, and what was told before stays', async () => {
  await onPage('/hosts', {}, async (page) => {
    await card(page).waitFor()
    const body = stream(['snapshot', answerOf('told-before')], ['reset', { ...sub, error: 'a block is damaged' }])
    await page.route('**/v1/watch*', (route) => route.fulfill({ contentType: 'text/event-stream', body }))
    await page.reload()
    await page.getByRole('alert').getByText('The server could not answer: a block is damaged').waitFor()
    await card(page, 'told-before').waitFor()
  })
})

test('before the server has said anything, nothing is said to be missing', async () => {
  await onPage('/hosts', {}, async (page) => {
    await page.route('**/v1/watch*', () => undefined)
    await page.goto(`${world.server.url}/hosts?host=${HOST}`)
    await page.getByRole('region', { name: 'Disks' }).waitFor()
    assert.equal(await page.getByText(/told of/).count(), 0)
  })
})

test('more hosts than are told apart are said to be missing', async () => {
  await onPage('/hosts', {}, async (page) => {
    const body = stream(['snapshot', answerOf('told-before', '(other)')])
    await page.route('**/v1/watch*', (route) => route.fulfill({ contentType: 'text/event-stream', body }))
    await page.reload()
    await card(page, 'told-before').waitFor()
    await page.getByText('Some hosts are missing here').waitFor()
  })
})

test('a reading is seen without loading anew', { skip: isReal ? false : 'the mock takes no readings' }, async () => {
  await onPage('/hosts', {}, async (page) => {
    await card(page).waitFor()
    const fresh = `early-${run}`
    await send(93, fresh)
    await card(page, fresh).getByText('93%').waitFor()
    await send(12, fresh)
    await card(page, fresh).getByText('93%').waitFor({ state: 'detached' })
  })
})

/** Where a chart of a week has the name of each day, in a browser of the zone. */
async function daysDrawn(timezone) {
  let days
  await onPage(`/hosts?host=${HOST}&last=7d`, { timezone }, async (page) => {
    await page.addInitScript(rememberTexts)
    await page.reload()
    const chart = page.getByRole('region', { name: 'Processors' }).locator('canvas')
    const drawn = () => chart.evaluate((canvas) => globalThis.textsOf.get(canvas) ?? {})
    const isDay = ([text]) => /^\d+ [A-Z]/.test(text)
    await until(page, async () => {
      days = Object.fromEntries(Object.entries(await drawn()).filter(isDay))
      return Object.keys(days).length > 0
    })
  })
  return days
}

/** In the page: where each canvas has which text. */
function rememberTexts() {
  globalThis.textsOf = new WeakMap()
  const { fillText } = CanvasRenderingContext2D.prototype
  CanvasRenderingContext2D.prototype.fillText = function (text, x, ...more) {
    globalThis.textsOf.set(this.canvas, { ...globalThis.textsOf.get(this.canvas), [text]: x })
    return fillText.call(this, text, x, ...more)
  }
}

const sub = { sub: 'query0', as_of: { time: new Date().toISOString(), position: '0/0' } }

/** What the server would say of hosts with half of their memory in use. */
function answerOf(...hosts) {
  const metrics = { 'host.memory_total': 8e9, 'host.memory_used': 4e9 }
  const series = hosts.flatMap((host) =>
    Object.entries(metrics).map(([name, value]) => ({ name, key: { host }, values: [value], total: 0 })),
  )
  return { ...sub, step: 'minute', tz: 'UTC', times: [sub.as_of.time], series }
}

/** Server-sent events, each of a kind. */
function stream(...messages) {
  return messages.map(([kind, message]) => `event: ${kind}\ndata: ${JSON.stringify(message)}\n\n`).join('')
}

function card(page, host = HOST) {
  return page.getByRole('article').filter({ hasText: host })
}

/** What an agent would send of a host whose processors are so busy. */
async function send(cpu, host = HOST) {
  const whole = { cpu, memory_used: 3e9, memory_total: 8e9, disk_full: 41, load_1: 1.5, cores: 4 }
  const lines = Object.entries(whole).map(([name, value]) => `host.${name},host=${host} value=${value}`)
  lines.push(`mount.used,host_part=${host}// value=4e10`, `mount.total,host_part=${host}// value=1e11`)
  lines.push(`host.cpu_user,host=${host} value=${cpu}`, `postgres.commits,host=${host} value=12`)
  lines.push(`agent.source_up,host_part=${host}/redis value=0`)
  const answer = await fetch(`${world.server.url}/v1/agent/readings`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${world.server.secretKey}`, 'Content-Type': 'text/plain' },
    body: lines.join('\n'),
  })
  assert.equal(answer.status, 204)
}
