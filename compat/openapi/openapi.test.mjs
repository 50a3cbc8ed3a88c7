/** The OpenAPI description passes Spectral, and openapi-typescript generates types with which a client works. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { key, start, stop, url } from '../collectors/server.mjs'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const tool = (name) => join(HERE, 'node_modules', '.bin', name)
let work, description
before(async () => {
  await start([])
  work = mkdtempSync(join(tmpdir(), 'openapi-'))
  description = join(work, 'openapi.json')
  writeFileSync(description, await (await fetch(`${url()}/openapi.json`)).text())
})
after(async () => {
  await stop()
  rmSync(work, { recursive: true, force: true })
})

/** Runs a tool; its output is in the error if it fails. */
function run(name, ...args) {
  try {
    return execFileSync(tool(name), args, { cwd: work, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  } catch (error) {
    throw new Error(`${name}: ${error.stdout}${error.stderr}`)
  }
}

test('Spectral finds nothing', () => {
  run('spectral', 'lint', '--ruleset', join(HERE, 'spectral.yaml'), '--fail-severity', 'hint', description)
})

test('openapi-typescript generates types with which a client works', async () => {
  const folder = join(work, 'client')
  mkdirSync(folder)
  symlinkSync(join(HERE, 'node_modules'), join(folder, 'node_modules'))
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}')
  for (const file of ['client.ts', 'tsconfig.json']) cpSync(join(HERE, file), join(folder, file))
  run('openapi-typescript', description, '--output', join(folder, 'schema.d.ts'))
  run('tsc', '--project', folder, '--noEmit', 'false', '--outDir', folder)
  const client = await import(pathToFileURL(join(folder, 'client.js')).href)
  const result = await client.run(url(), key())
  assert.deepEqual(result, {
    accepted: [1, 2, 1],
    total: { key: {}, values: [4], total: 4 },
    board: 'Race',
    field: 'page',
    status: 400,
    vars: 200,
  })
})
