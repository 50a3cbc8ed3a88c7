/** `GET /metrics` passes Prometheus' own check of names, types and help. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const BINARY = process.env.PLAYMETER_BINARY ?? fileURLToPath(new URL('../../target/release/playmeter', import.meta.url))
/** The environment without settings of other servers. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

let server, folder, bootstrap

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'prometheus-'))
  // A collector, so that its families have samples.
  writeFileSync(join(folder, 'settings.toml'), "[collectors.udp]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\n")
  const args = ['serve', '--data', join(folder, 'data'), '--listen', '127.0.0.1:0', '--config', join(folder, 'settings.toml')]
  server = spawn(BINARY, args, { stdio: ['ignore', 'pipe', 'inherit'], env: ENV })
  for await (const text of server.stdout) if (String(text).includes('Playmeter is ready')) break
  bootstrap = JSON.parse(readFileSync(join(folder, 'data', 'bootstrap.json'), 'utf8'))
})

after(async () => {
  server?.kill()
  if (server) await once(server, 'exit')
  rmSync(folder, { recursive: true, force: true })
})

test('promtool finds nothing wrong in the metrics', async () => {
  const headers = { Authorization: `Bearer ${bootstrap.public_key}`, 'Content-Type': 'application/json' }
  for (const body of ['{"event":"win","player":"bo"}', '{"event":""}', '{']) {
    await fetch(`${bootstrap.url}/v1/events`, { method: 'POST', headers, body })
  }
  const deadline = Date.now() + 30_000
  let metrics
  do {
    assert.ok(Date.now() < deadline, metrics)
    metrics = await (await fetch(`${bootstrap.url}/metrics`)).text()
  } while (!/^playmeter_events_total\{.*outcome="accepted".*\} 1$/m.test(metrics))
  assert.match(metrics, /^playmeter_collector_running\{collector="udp"\} 1$/m)
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], { input: metrics, encoding: 'utf8' })
  assert.deepEqual([status, stdout, stderr], [0, '', ''])
})
