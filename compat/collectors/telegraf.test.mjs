/** Telegraf sends over both of its InfluxDB outputs, and queries return what it sent. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { folder, key, queryMeasure, request, start, stop, url } from './server.mjs'
import { skipIf } from '../skip.mjs'

const POINTS = 2_000
const REGIONS = ['north', 'south', 'east side']

const telegraf = [process.env.TELEGRAF, join(homedir(), 'go', 'bin', 'telegraf'), ...onPath()].find(
  (path) => path && existsSync(path),
)
const skip = skipIf(!telegraf, 'telegraf', 'not installed; scripts/telegraf builds it if Go is installed')

before(() => skip || start([`[collectors.udp]\ntransport='udp'\ndecoder='statsd'\nlisten='127.0.0.1:0'\ntags=['region']\n`]))
after(() => skip || stop())

function onPath() {
  return (process.env.PATH ?? '').split(':').map((folder) => join(folder, 'telegraf'))
}

/** Returns lines as an application writes them, and the expected sums. */
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
  const { status, stderr } = spawnSync(telegraf, ['--config', path, '--once'], { encoding: 'utf8', timeout: 180_000 })
  assert.equal(status, 0, stderr)
  return stderr
}

for (const [name, output] of [
  ['influxdb', () => `[[outputs.influxdb]]\nurls = ["${url()}"]\nskip_database_creation = true\nhttp_headers = {"Authorization" = "Token ${key()}"}\n`],
  ['influxdb_v2', () => `[[outputs.influxdb_v2]]\nurls = ["${url()}"]\ntoken = "${key()}"\norganization = "any"\nbucket = "any"\n`],
]) {
  test(`Telegraf's output ${name}: queries return what was sent`, { skip }, async () => {
    const earlier = await accounting()
    const { text, sums } = lines(name)
    const file = join(folder, `${name}.lines`)
    writeFileSync(file, text)
    run(name, `${output()}[[inputs.file]]\nfiles = ["${file}"]\ndata_format = "influx"\n`)
    assert.equal(await queryMeasure(name, 'count'), POINTS)
    assert.equal(await queryMeasure(name, 'avg'), sums.all / POINTS)
    assert.equal(await queryMeasure(name, 'max'), 999)
    assert.equal(await queryMeasure(name, 'last'), ((POINTS - 1) * 37) % 1_000)
    assert.equal(await queryMeasure(`${name}_open`, 'avg'), 0.5)
    for (const region of REGIONS) {
      const count = await queryMeasure(name, 'count', region)
      assert.equal(Math.round((await queryMeasure(name, 'avg', region)) * count), sums[region])
    }
    // A text field is not a sample: it is rejected, and the other fields of the point are accepted.
    const { accepted, invalid, received } = await accounting()
    assert.deepEqual([accepted - earlier.accepted, invalid - earlier.invalid], [3 * POINTS, POINTS])
    assert.equal(received, accepted + invalid)
  })
}

test("Telegraf's memory metrics arrive with the values it writes to a file", { skip }, async () => {
  const file = join(folder, 'memory.json')
  const own = `[[outputs.influxdb_v2]]\nurls = ["${url()}"]\ntoken = "${key()}"\norganization = "any"\nbucket = "any"\n`
  run('memory', `${own}[[outputs.file]]\nfiles = ["${file}"]\ndata_format = "json"\n[[inputs.mem]]\n`)
  const { fields } = JSON.parse(readFileSync(file, 'utf8').trim().split('\n').at(-1))
  assert.ok(Object.keys(fields).length > 10, 'Telegraf reads memory metrics')
  for (const [name, value] of Object.entries(fields)) assert.equal(await queryMeasure(`mem_${name}`, 'last'), value, name)
})

async function accounting() {
  const { endpoints } = await request('/v1/load')
  return endpoints.find((row) => row.endpoint === 'influx') ?? { accepted: 0, invalid: 0, received: 0 }
}
