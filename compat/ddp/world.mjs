/** A server of a test's own, on a new folder; it keeps its address when it is killed and comes back. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import WebSocket from 'ws'

const BINARY = process.env.PLAYMETER_BINARY ?? fileURLToPath(new URL('../../target/release/playmeter', import.meta.url))
/** Without the settings of another server. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

export class World {
  folder = mkdtempSync(join(tmpdir(), 'ddp-'))
  listen = '127.0.0.1:0'

  static async start() {
    const world = new World()
    await world.start()
    return world
  }

  async start() {
    const stdio = ['ignore', 'pipe', 'inherit']
    this.server = spawn(BINARY, ['serve', '--data', this.folder, '--listen', this.listen], { stdio, env: ENV })
    for await (const text of this.server.stdout) if (String(text).includes('Playmeter is ready')) break
    this.bootstrap = JSON.parse(readFileSync(join(this.folder, 'bootstrap.json'), 'utf8'))
    this.listen = new URL(this.bootstrap.url).host
  }

  /** Takes the server away in the middle of whatever it does. */
  async kill() {
    this.server.kill('SIGKILL')
    await once(this.server, 'exit')
  }

  async end() {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** The address of the sockets, for a page with the public key. */
  endpoint(path = 'websocket') {
    return `ws://${this.listen}/${path}?key=${this.bootstrap.public_key}`
  }

  /** A WebSocket with the secret key in its handshake, for servers. */
  socketWithSecret() {
    const headers = { Authorization: `Bearer ${this.bootstrap.secret_key}` }
    return class extends WebSocket {
      constructor(url) {
        super(url.split('?')[0], { headers })
      }
    }
  }

  /** A write through the other door. */
  async write(method, path, body) {
    const headers = { Authorization: `Bearer ${this.bootstrap.secret_key}`, 'Content-Type': 'application/json' }
    const response = await fetch(this.bootstrap.url + path, { method, headers, body: body && JSON.stringify(body) })
    assert.ok(response.ok, `${method} ${path}: ${response.status}`)
    return response.status === 204 ? null : response.json()
  }
}

/** Waits until it holds. */
export async function until(what, holds) {
  const deadline = Date.now() + 30_000
  while (!(await holds())) {
    assert.ok(Date.now() < deadline, `waited in vain: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
