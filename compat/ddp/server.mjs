/** A test server on a new data folder. It keeps its address when it is killed and restarted. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import WebSocket from 'ws'

const BINARY = process.env.PLAYMETER_BINARY ?? fileURLToPath(new URL('../../target/release/playmeter', import.meta.url))
/** The environment without settings of other servers. */
const ENV = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PLAYMETER_')))

export class TestServer {
  folder = mkdtempSync(join(tmpdir(), 'ddp-'))
  listen = '127.0.0.1:0'

  static async start() {
    const server = new TestServer()
    await server.start()
    return server
  }

  async start() {
    const stdio = ['ignore', 'pipe', 'inherit']
    this.process = spawn(BINARY, ['serve', '--data', this.folder, '--listen', this.listen], { stdio, env: ENV })
    for await (const text of this.process.stdout) if (String(text).includes('Playmeter is ready')) break
    this.bootstrap = JSON.parse(readFileSync(join(this.folder, 'bootstrap.json'), 'utf8'))
    this.listen = new URL(this.bootstrap.url).host
  }

  /** Kills the server with SIGKILL. */
  async kill() {
    this.process.kill('SIGKILL')
    await once(this.process, 'exit')
  }

  async remove() {
    await this.kill()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** Returns the WebSocket URL with the public key, as a page uses it. */
  endpoint(path = 'websocket') {
    return `ws://${this.listen}/${path}?key=${this.bootstrap.public_key}`
  }

  /** Returns a WebSocket class that sends the secret key in its handshake, as servers do. */
  socketWithSecret() {
    const headers = { Authorization: `Bearer ${this.bootstrap.secret_key}` }
    return class extends WebSocket {
      constructor(url) {
        super(url.split('?')[0], { headers })
      }
    }
  }

  /** Sends a request over HTTP and returns its JSON. */
  async request(method, path, body) {
    const headers = { Authorization: `Bearer ${this.bootstrap.secret_key}`, 'Content-Type': 'application/json' }
    const response = await fetch(this.bootstrap.url + path, { method, headers, body: body && JSON.stringify(body) })
    assert.ok(response.ok, `${method} ${path}: ${response.status}`)
    return response.status === 204 ? null : response.json()
  }
}

/** Waits until the condition is true. */
export async function until(description, condition) {
  const deadline = Date.now() + 30_000
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `timed out waiting until ${description}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
