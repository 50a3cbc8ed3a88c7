/** Starts a server for a test and queries its numbers. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const BINARY =
  process.env.PLAYMETER_BINARY ?? fileURLToPath(new URL('../../target/release/playmeter', import.meta.url))
/** The environment without settings of other servers. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

let server, bootstrap
/** The temporary folder; removed when the server stops. */
export let folder

export async function start(settings) {
  folder = mkdtempSync(join(tmpdir(), 'collectors-'))
  writeFileSync(join(folder, 'settings.toml'), settings.join(''))
  const args = ['serve', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0']
  const stdio = ['ignore', 'pipe', 'inherit']
  server = spawn(BINARY, [...args, '--config', join(folder, 'settings.toml')], { stdio, env: ENV })
  for await (const text of server.stdout) if (String(text).includes('Playmeter is ready')) break
  bootstrap = JSON.parse(readFileSync(join(folder, 'data', 'bootstrap.json'), 'utf8'))
}

export async function stop() {
  server?.kill()
  if (server) await once(server, 'exit')
  rmSync(folder, { recursive: true, force: true })
}

export const url = () => bootstrap.url
export const key = () => bootstrap.secret_key
export const headers = () => ({ Authorization: `Bearer ${key()}` })

export async function request(path, body) {
  const jsonHeaders = { ...headers(), 'Content-Type': 'application/json' }
  const options = body ? { method: 'POST', headers: jsonHeaders, body: JSON.stringify(body) } : { headers: jsonHeaders }
  const response = await fetch(url() + path, options)
  assert.equal(response.status, 200, await response.clone().text())
  return response.json()
}

/** Returns a measure of a metric over the last 24 hours, in total or for one region. */
export async function queryMeasure(metric, measure, region) {
  const where = region ? { where: { region } } : {}
  const result = await request('/v1/query', { metric, measure, last: '24h', step: 'all', ...where })
  return result.series[0]?.total
}

export async function collector(name) {
  const { collectors } = await request('/v1/collectors')
  return collectors.find((collector) => collector.name === name)
}

/** Waits until a collector has accepted this many samples and returns its counters. */
export async function waitForAccepted(name, count) {
  const deadline = Date.now() + 30_000
  for (;;) {
    const { counters } = await collector(name)
    if (counters.accepted >= count) return counters
    assert.ok(Date.now() < deadline, `expected ${count} accepted samples, got ${JSON.stringify(counters)}`)
    await sleep(50)
  }
}
