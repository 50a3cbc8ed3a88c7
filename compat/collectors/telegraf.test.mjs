/** Telegraf sends over both of its InfluxDB outputs, and a query says what it sent. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { ask, folder, key, measured, start, stop, url } from './world.mjs'

const POINTS = 2_000
const REGIONS = ['north', 'south', 'east side']

const telegraf = [process.env.TELEGRAF, join(homedir(), 'go', 'bin', 'telegraf'), ...onPath()].find(
  (path) => path && existsSync(path),
)
const skip = !telegraf && 'Telegraf is not there; scripts/telegraf builds it where Go is installed'

before(() => skip || start([`[collectors.udp]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\ntags=['region']\n`]))
after(() => skip || stop())

function onPath() {
  return (process.env.PATH ?? '').split(':').map((each) => join(each, 'telegraf'))
}

/** Lines as an application writes them, and what must become of them. */
function lines(prefix) {
  const text = []
  const sums = { all: 0 }
  const from = Date.now() - 3_600_000
  for (let number = 0; number < POINTS; number += 1) {
    const region = REGIONS[number % REGIONS.length]
    const value = (number * 37) % 1_000
    sums.all += value
    sums[region] = (sums[region] ?? 0) + value
    const tags = `region=${region.replaceAll(' ', '\\ ')},host=h${number % 7}`
    const fields = `value=${value}i,share=${value / 1_000},open=${number % 2 ? 'true' : 'false'},note="n, ${number}"`
    text.push(`${prefix},${tags} ${fields} ${from + number}000000`)
  }
  return { text: `${text.join('\n')}\n`, sums }
}

function run(name, output) {
  const path = join(folder, `${name}.conf`)
  writeFileSync(path, `[agent]\nomit_hostname = true\nmetric_batch_size = 300\n${output}`)
  const { status, stderr } = spawnSync(telegraf, ['--config', path, '--once'], { encoding: 'utf8', timeout: 60_000 })
  assert.equal(status, 0, stderr)
  return stderr
}

for (const [name, output] of [
  ['influxdb', () => `[[outputs.influxdb]]\nurls = ["${url()}"]\nskip_database_creation = true\nhttp_headers = {"Authorization" = "Token ${key()}"}\n`],
  ['influxdb_v2', () => `[[outputs.influxdb_v2]]\nurls = ["${url()}"]\ntoken = "${key()}"\norganization = "any"\nbucket = "any"\n`],
]) {
  test(`Telegraf's output ${name}: what was sent is what a query says`, { skip }, async () => {
    const before = await account()
    const { text, sums } = lines(name)
    const file = join(folder, `${name}.lines`)
    writeFileSync(file, text)
    run(name, `${output()}[[inputs.file]]\nfiles = ["${file}"]\ndata_format = "influx"\n`)
    assert.equal(await measured(name, 'count'), POINTS)
    assert.equal(await measured(name, 'avg'), sums.all / POINTS)
    assert.equal(await measured(name, 'max'), 999)
    assert.equal(await measured(name, 'last'), ((POINTS - 1) * 37) % 1_000)
    assert.equal(await measured(`${name}_open`, 'avg'), 0.5)
    for (const region of REGIONS) {
      const count = await measured(name, 'count', region)
      assert.equal(Math.round((await measured(name, 'avg', region)) * count), sums[region])
    }
    // Text is no sample: refused field by field, and the others of the point are taken.
    const { accepted, invalid, received } = await account()
    assert.deepEqual([accepted - before.accepted, invalid - before.invalid], [3 * POINTS, POINTS])
    assert.equal(received, accepted + invalid)
  })
}

test('what Telegraf reads of the machine arrives as it writes it elsewhere', { skip }, async () => {
  const file = join(folder, 'memory.json')
  const own = `[[outputs.influxdb_v2]]\nurls = ["${url()}"]\ntoken = "${key()}"\norganization = "any"\nbucket = "any"\n`
  run('memory', `${own}[[outputs.file]]\nfiles = ["${file}"]\ndata_format = "json"\n[[inputs.mem]]\n`)
  const { fields } = JSON.parse(readFileSync(file, 'utf8').trim().split('\n').at(-1))
  assert.ok(Object.keys(fields).length > 10, 'it reads something')
  for (const [name, value] of Object.entries(fields)) assert.equal(await measured(`mem_${name}`, 'last'), value, name)
})

async function account() {
  const { endpoints } = await ask('/v1/load')
  return endpoints.find((row) => row.endpoint === 'influx') ?? { accepted: 0, invalid: 0, received: 0 }
}
