/** A server of the test's own, and what it says. */
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
/** Without the settings of another server. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

let server, bootstrap
/** Ends with the server. */
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

export async function ask(path, body) {
  const typed = { ...headers(), 'Content-Type': 'application/json' }
  const request = body ? { method: 'POST', headers: typed, body: JSON.stringify(body) } : { headers: typed }
  const answer = await fetch(url() + path, request)
  assert.equal(answer.status, 200, await answer.clone().text())
  return answer.json()
}

/** A measure of a metric since yesterday, whole or of one region. */
export async function measured(metric, measure, region) {
  const where = region ? { where: { region } } : {}
  const answer = await ask('/v1/query', { metric, measure, last: '24h', step: 'all', ...where })
  return answer.series[0]?.total
}

export async function collector(name) {
  const { collectors } = await ask('/v1/collectors')
  return collectors.find((collector) => collector.name === name)
}

/** Waits until a collector has written so many samples. */
export async function accepted(name, count) {
  const deadline = Date.now() + 30_000
  for (;;) {
    const { counters } = await collector(name)
    if (counters.accepted >= count) return counters
    assert.ok(Date.now() < deadline, `${JSON.stringify(counters)}, not ${count}`)
    await sleep(50)
  }
}
