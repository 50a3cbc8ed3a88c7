/** Starts a server for a test and queries its numbers. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const BINARY = process.env.PLAYMETER_BINARY ?? fileURLToPath(new URL('../../target/release/playmeter', import.meta.url))
/** The environment without settings of other servers. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

export class Server {
  static async start() {
    const server = new Server()
    server.folder = mkdtempSync(join(tmpdir(), 'playmeter-capture-'))
    const stdio = ['ignore', 'pipe', 'inherit']
    server.process = spawn(BINARY, ['serve', '--data', server.folder, '--listen', '127.0.0.1:0'], { stdio, env: ENV })
    for await (const text of server.process.stdout) if (String(text).includes('Playmeter is ready')) break
    const bootstrap = JSON.parse(readFileSync(join(server.folder, 'bootstrap.json'), 'utf8'))
    return Object.assign(server, { url: bootstrap.url, publicKey: bootstrap.public_key, secretKey: bootstrap.secret_key })
  }

  async stop() {
    this.process.kill()
    await once(this.process, 'exit')
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Runs `playmeter ARGS` and returns its JSON output. */
  command(...args) {
    const done = spawnSync(BINARY, [...args, '--data', this.folder, '--json'], { encoding: 'utf8', env: ENV })
    if (done.status !== 0) throw new Error(done.stderr)
    return JSON.parse(done.stdout)
  }

  async get(path) {
    const response = await fetch(this.url + path, { headers: { Authorization: `Bearer ${this.secretKey}` } })
    if (!response.ok) throw new Error(await response.text())
    return response.json()
  }

  /** Returns a metric's total over the last hour; with a dimension, the totals by its values. */
  async total(metric, measure = 'count', by) {
    const query = new URLSearchParams({ metric, measure, last: '60m', step: 'all', ...(by && { by }) })
    const { series } = await this.get(`/v1/query?${query}`)
    if (!by) return series[0]?.total ?? 0
    return Object.fromEntries(series.map(({ key, total }) => [key[by], total]))
  }

  /** Returns the ingest accounting of an endpoint. */
  async accounting(endpoint) {
    const { endpoints } = await this.get('/v1/load')
    return endpoints.find((row) => row.endpoint === endpoint)
  }

  /** Waits until an endpoint has received this many events and returns its accounting. */
  async waitForReceived(endpoint, count) {
    for (let tries = 0; tries < 300; tries++) {
      const accounting = await this.accounting(endpoint)
      if (accounting?.received >= count) return accounting
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    throw new Error(`${endpoint}: expected ${count} received events, got ${JSON.stringify(await this.accounting(endpoint))}`)
  }
}
