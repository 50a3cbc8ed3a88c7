/** Tests of the package as it is published: its tarball, installed in an empty project without a registry. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { chooseServer } from './harness.mjs'

const PACKAGE = fileURLToPath(new URL('..', import.meta.url))
const run = Date.now().toString(36)
let project
let packed
let server

async function sh(command, args, options = {}) {
  return (await promisify(execFile)(command, args, { cwd: project, ...options })).stdout
}

before(async () => {
  server = await chooseServer()
  project = mkdtempSync(join(tmpdir(), 'playmeter-package-'))
  const listed = await sh('npm', ['pack', '--json', '--pack-destination', project], { cwd: PACKAGE })
  packed = JSON.parse(listed)[0]
  writeFileSync(join(project, 'package.json'), '{"name": "a-game", "version": "1.0.0", "type": "module", "private": true}')
  await sh('npm', ['install', '--offline', '--no-audit', '--no-fund', join(project, packed.filename)])
})

after(() => {
  server?.close()
  rmSync(project, { recursive: true })
})

test('the package has what it exports, no sources of the tests and no dependency', async () => {
  const files = packed.files.map(({ path }) => path)
  for (const path of ['README.md', 'dist/playmeter.js', 'dist/playmeter.iife.js', 'dist/types/index.d.ts', 'console/main.mjs']) {
    assert.ok(files.includes(path), `${path} in ${files}`)
  }
  const unexpected = files.filter((path) => !/^(dist\/|console\/|README\.md$|LICENSE$|package\.json$)/.test(path))
  assert.deepEqual(unexpected, [])
  const installed = JSON.parse(await sh('npm', ['ls', '--all', '--json'])).dependencies
  assert.deepEqual([Object.keys(installed), installed.playmeter.dependencies], [['playmeter'], undefined])
})

test('the module is imported and sends an event', async () => {
  const name = `packed_${run}`
  const code = `
    import { Playmeter, PlaymeterError } from 'playmeter'
    import { sha256 } from 'playmeter/sha256'
    const game = new Playmeter({ url: process.argv[2], key: process.argv[3], sha256 })
    game.track(process.argv[4], { value: 7 })
    await game.close()
    console.log(typeof PlaymeterError, game.player.length)`
  writeFileSync(join(project, 'game.mjs'), code)
  assert.equal(await sh(process.execPath, ['game.mjs', server.url, server.key, name]), 'function 36\n')
  assert.equal(await server.counted(name), 1)
})

test('the types are found with both kinds of module resolution', async () => {
  const code = `
    import { Playmeter, type EventsLost } from 'playmeter'
    import { sha256 } from 'playmeter/sha256'
    const game = new Playmeter({ url: '', key: 'pm_pk_x', defaults: { speed: 1 }, sha256, onError: (error) => {
      const { count } = error as EventsLost
      count.toFixed()
    } })
    export const speed: number = game.vars.get('speed')
    // @ts-expect-error: there is no such variable
    game.vars.get('sky')`
  writeFileSync(join(project, 'game.ts'), code)
  const tsc = join(PACKAGE, 'node_modules/typescript/bin/tsc')
  for (const resolution of [['bundler', 'esnext'], ['node16', 'node16']]) {
    const [moduleResolution, module] = resolution
    const args = ['--noEmit', '--strict', '--target', 'es2022', '--module', module, '--moduleResolution', moduleResolution]
    await sh(process.execPath, [tsc, ...args, 'game.ts'])
  }
})

test('the console is installed as a command', async () => {
  const help = await sh('npx', ['--offline', 'playmeter-console', '--help'])
  assert.match(help, /^playmeter-console: a JavaScript prompt on the HTTP API/)
  assert.match(await sh('npx', ['--offline', 'playmeter-console', '--version']), /^\d+\.\d+\.\d+\n$/)
})
