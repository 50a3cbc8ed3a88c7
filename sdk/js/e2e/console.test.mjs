/** Tests of `playmeter-console` against a server: as a script, and at a pseudo-terminal. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { waitUntil } from './harness.mjs'

const MAIN = fileURLToPath(new URL('../console/main.mjs', import.meta.url))
const { PLAYMETER_URL: url, PLAYMETER_PUBLIC_KEY: publicKey, PLAYMETER_SECRET_KEY: secretKey } = process.env
const skip = url ? false : 'server-only'
const run = Date.now().toString(36)
let folder
const terminals = []

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'playmeter-console-'))
})
after(() => {
  terminals.forEach((child) => child.kill())
  rmSync(folder, { recursive: true })
})

function environment(extra = {}) {
  const { PLAYMETER_URL: _, ...rest } = process.env
  return { ...rest, HOME: folder, PLAYMETER_URL: url, PLAYMETER_KEY: secretKey, ...extra }
}

/** Runs the console to its end. */
async function console_(args, { input = '', env } = {}) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: environment(env) })
  const result = { out: '', err: '' }
  child.stdout.on('data', (data) => (result.out += data))
  child.stderr.on('data', (data) => (result.err += data))
  child.stdin.end(input)
  const code = await new Promise((done) => child.on('close', done))
  return { code, ...result }
}

test('requests and JavaScript run from standard input, a file and an argument', { skip }, async () => {
  const lines = [
    `put /v1/vars/speed_${run} {`,
    '  value: {deep: [1, 2, 3]}, // a comment',
    '}',
    `const all = await get('/v1/vars', {player: 'bo'})`,
    `console.log(all.status, all.body.speed_${run}.deep.length, $_.headers['content-type'])`,
    `for (const value of [1, 2]) {`,
    `  put /v1/vars/n_${run} {value}`,
    '}',
    `console.log($_.request.method, $_.body.version > 0)`,
  ]
  const input = lines.join('\n')
  const piped = await console_([], { input })
  assert.deepEqual([piped.code, piped.err], [0, ''])
  const expected = /^\{\n {2}"name": "speed_\w+",\n {2}"version": \d+\n\}\n200 3 application\/json\n\{[^}]*\}\n\{[^}]*\}\nPUT true\n$/
  assert.match(piped.out, expected)
  const file = join(folder, 'script.mjs')
  writeFileSync(file, `#!/usr/bin/env playmeter-console\n${input}\n`)
  assert.match((await console_(['--file', file])).out, expected)
  const evaluated = await console_(['--eval', 'get /v1/vars/none'])
  assert.equal(evaluated.code, 1)
  assert.match(evaluated.err, /--eval:1: GET \/v1\/vars\/none: 404/)
})

test('each kind of failure has its exit code and names the line', { skip }, async () => {
  const failing = 'get /v1/none\nconsole.log("after")\nget /v1/none'
  const outcome = async (args, options) => {
    const { code, err } = await console_(args, options)
    return [code, err.trim().split('\n').at(-1)]
  }
  const at = 'playmeter-console: standard input'
  assert.deepEqual(await outcome([], { input: failing }), [1, `${at}:1: GET /v1/none: 404`])
  assert.deepEqual(await outcome([], { input: '\n\nnull.x' }), [1, `${at}:3: TypeError: Cannot read properties of null (reading 'x')`])
  assert.deepEqual(await outcome([], { input: '\nconst =' }), [1, `${at}:2: SyntaxError: Unexpected token '='`])
  const kept = await console_(['--keep-going'], { input: failing })
  assert.equal(kept.code, 1)
  assert.match(kept.out, /after/)
  assert.match(kept.err, /2 requests failed/)
  const free = createServer()
  await new Promise((done) => free.listen(0, '127.0.0.1', done))
  const closed = `http://127.0.0.1:${free.address().port}`
  await new Promise((done) => free.close(done))
  const unreachable = await outcome([closed], { input: 'get /v1/vars' })
  assert.equal(unreachable[0], 3)
  assert.match(unreachable[1], new RegExp(`no response from ${closed}: .*ECONNREFUSED`))
  for (const [args, message] of [
    [['ftp://x', '-e', '1'], /must begin with http/],
    [['http://me:secret@x', '-e', '1'], /no user, query or fragment/],
    [['--unknown'], /--unknown/],
    [['-f', join(folder, 'none')], /cannot read the script/],
    [['-k', join(folder, 'none'), '-e', '1'], /cannot read the key/],
    [['-H', 'nonsense', '-e', '1'], /'Name: value'/],
    [['--timeout', '0', '-e', '1'], /--timeout/],
  ]) {
    const { code, err } = await console_(args)
    assert.equal(code, 2, `${args}: ${err}`)
    assert.match(err, message)
  }
})

test('what is sent is shown when asked, without secrets', { skip }, async () => {
  const input = `headers['X-Test'] = 'seven'\ncookies.a = 'hidden-cookie'\npost /v1/events {event: 'jump_${run}'}\nconsole.log($_.request.headers)`
  const { code, out, err } = await console_(['--verbose'], { input })
  assert.equal(code, 0, err)
  assert.match(err, new RegExp(`^# ${url} \\(PLAYMETER_URL\\), secret key pm_sk_..\\.\\.\\..{4} \\(PLAYMETER_KEY\\)`))
  assert.match(err, new RegExp(`> POST ${url}/v1/events\n`))
  assert.match(err, /> x-test: seven\n/)
  assert.match(err, new RegExp(`> \\{"event":"jump_${run}"\\}`))
  assert.match(err, /< 202 Accepted\n/)
  for (const text of [out, err]) assert.ok(!text.includes(secretKey) && !text.includes('hidden-cookie'), text)
})

test('cookies are kept, and belong to their server with the key', { skip }, async () => {
  const [name, value] = process.env.PLAYMETER_SESSION.split('=')
  const input = `cookies[${JSON.stringify(name)}] = ${JSON.stringify(value)}\nget /v1/me\nheaders.Origin = '${url}'`
  const signedIn = await console_([], { input, env: { PLAYMETER_KEY: '' } })
  assert.equal(signedIn.code, 0, signedIn.err)
  assert.match(signedIn.out, /"csrf"/)
})

/** The console at a pseudo-terminal. */
function terminal(args = []) {
  const command = [process.execPath, MAIN, ...args].map((arg) => `'${arg}'`).join(' ')
  const child = spawn('script', ['-qefc', command, '/dev/null'], { env: environment({ TERM: 'xterm' }) })
  const shell = { screen: '' }
  terminals.push(child)
  child.stdout.on('data', (data) => (shell.screen += data))
  const closed = new Promise((done) => child.on('close', done))
  return Object.assign(shell, {
    /** Types keys and waits for a text to appear after them. */
    async type(keys, expected) {
      const before = shell.screen.length
      child.stdin.write(keys)
      const appears = () => expected.test(plain(shell.screen.slice(before)))
      await waitUntil(appears).catch(() => assert.fail(`${expected} did not appear in: ${plain(shell.screen.slice(before))}`))
      return plain(shell.screen.slice(before))
    },
    async exit() {
      await waitUntil(() => plain(shell.screen).endsWith('> '))
      child.stdin.write('\u0004')
      return closed
    },
  })
}

const plain = (screen) => screen.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/\r/g, '')

test('routes, verbs and parameters are completed at a terminal', { skip }, async () => {
  const shell = terminal()
  await waitUntil(() => shell.screen.includes('> '))
  assert.match(plain(shell.screen), /secret key pm_sk_.*\nGET \/openapi.json: \d+ routes for completion\n/)
  await shell.type('get /v1/quer\t', /get \/v1\/query/)
  await shell.type('?metr\t', /\?metric/)
  await shell.type('\u0015get /v1/players/bo/f\t', /\/v1\/players\/bo\/follows/)
  await shell.type('\u0015get /v1/boa\t', /\/v1\/boards/)
  await shell.type('\t', /\/v1\/boards\s+\/v1\/boards\//)
  await shell.type('\u0015patc\t', /patch/)
  await shell.type(`\u0015put /v1/vars/typed_${run} {\r`, /\.\.\. |\| /)
  await shell.type('value: 42}\r', /200 OK, \d+ ms, \d+ bytes\n\{\n {2}"name"/)
  await shell.type('$_.body.version > 0 && $_.status\r', /\n200\n/)
  await shell.type('(await get("/v1/vars/none")).status\r', /\n404\n/)
  await shell.type('.sent\r', /GET http.*\/v1\/vars\/none/)
  await shell.type('.routes rollback\r', /post +\/v1\/vars:rollback/)
  await shell.type('get /v1/watch?vars=1\r', /snapshot \{/)
  await shell.type('\u0003', /200 OK/)
  await shell.type(`.key ${publicKey}\r`, /public key pm_pk_/)
  await shell.type('get /v1/load\r', /403 Forbidden/)
  await shell.type('.server http://127.0.0.1:9\r', /no key/)
  await shell.type('get /v1/vars\r', /no response from http:\/\/127\.0\.0\.1:9/)
  assert.equal(await shell.exit(), 0)
})

test('the history of a terminal is kept without keys and only for its owner', { skip }, async () => {
  const history = join(folder, 'history')
  const first = terminal(['--history', history])
  await waitUntil(() => first.screen.includes('> '))
  await first.type(`.key ${secretKey}\r`, /secret key pm_sk_.*\(command\)/)
  await first.type(`get /v1/vars/earlier_${run}\r`, /404 Not Found/)
  await first.exit()
  const kept = readFileSync(history, 'utf8')
  assert.ok(kept.includes(`earlier_${run}`) && !kept.includes('pm_sk_'), kept)
  assert.equal(statSync(history).mode & 0o777, 0o600)
  const second = terminal(['--history', history])
  await waitUntil(() => second.screen.includes('> '))
  await second.type('\u001b[A', new RegExp(`get /v1/vars/earlier_${run}`))
  await second.type('\u0015', /> $/)
  await second.exit()
})
