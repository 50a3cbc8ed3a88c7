/** Prometheus scrapes a page with known numbers and sends them by remote write; queries return them. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { skipIf } from '../skip.mjs'
import { folder, key, queryMeasure, request, start, stop, url } from './server.mjs'

const PROMETHEUS = process.env.PROMETHEUS ?? 'prometheus'
const isMissing = spawnSync(PROMETHEUS, ['--version']).error !== undefined
const skip = skipIf(isMissing, 'prometheus', 'the Debian package prometheus is not installed')

let prometheus, page, scrapes
before(async () => {
  if (skip) return
  await start([])
  scrapes = 0
  page = createServer((_, response) => {
    scrapes += 1
    response.setHeader('Content-Type', 'text/plain; version=0.0.4')
    response.end(`# TYPE game_hits_total counter\ngame_hits_total{level="cave"} ${1_000 + scrapes * 5}\n` +
      `# TYPE game_players gauge\ngame_players 17\n`)
  }).listen(0, '127.0.0.1')
  await once(page, 'listening')
  const settings = {
    global: { scrape_interval: '1s' },
    scrape_configs: [{ job_name: 'game', static_configs: [{ targets: [`127.0.0.1:${page.address().port}`] }] }],
    remote_write: [{
      url: `${url()}/api/v1/write`,
      authorization: { credentials: key() },
      queue_config: { batch_send_deadline: '1s' },
    }],
  }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(settings))
  const args = [`--config.file=${join(folder, 'prometheus.yml')}`, `--storage.agent.path=${join(folder, 'agent')}`]
  const options = ['--enable-feature=agent', '--web.listen-address=127.0.0.1:0', '--log.level=warn']
  prometheus = spawn(PROMETHEUS, [...args, ...options], { stdio: ['ignore', 'inherit', 'inherit'] })
})
after(async () => {
  if (skip) return
  if (prometheus && prometheus.exitCode === null) {
    prometheus.kill()
    await once(prometheus, 'exit')
  }
  page?.close()
  await stop()
})

test('Prometheus writes what it scrapes', { skip }, async () => {
  const deadline = Date.now() + 120_000
  for (;;) {
    assert.equal(prometheus.exitCode, null, 'Prometheus has stopped')
    const [players, hits] = [await queryMeasure('game_players', 'count'), await queryMeasure('game_hits_total', 'sum')]
    if (players >= 5 && hits >= 15) break
    assert.ok(Date.now() < deadline, `${players} samples of players, ${hits} hits after ${scrapes} scrapes`)
    await sleep(500)
  }
  prometheus.kill()
  await once(prometheus, 'exit')
  const hits = await queryMeasure('game_hits_total', 'sum')
  // The first total was counted before; each further scrape that was written adds 5.
  assert.ok(hits % 5 === 0 && hits <= (scrapes - 1) * 5, `${hits} hits after ${scrapes} scrapes`)
  assert.equal(await queryMeasure('game_players', 'last'), 17)
  assert.equal(await queryMeasure('up', 'max'), 1)
  const { endpoints } = await request('/v1/load')
  const row = endpoints.find(({ endpoint }) => endpoint === 'prometheus')
  assert.equal(row.accepted, row.received)
})
