/** Published clients send to a test server, and queries return what they sent. README.md lists the clients. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { OTLPMetricExporter as JsonExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { OTLPMetricExporter as ProtoExporter } from '@opentelemetry/exporter-metrics-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AggregationTemporality, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import StatsD from 'hot-shots'
import { collector, headers, queryMeasure, request, start, stop, url, waitForAccepted } from './server.mjs'

before(() =>
  start(
    ['udp', 'tcp_server'].map(
      (transport) =>
        `[collectors.${transport}]\ntransport='${transport}'\ndecoder='statsd'\nlisten='127.0.0.1:0'\ntags=['region']\n`,
    ),
  ),
)
after(stop)

for (const [name, protocol, prefix] of [
  ['udp', 'udp', 'udp.'],
  ['tcp_server', 'tcp', 'tcp.'],
]) {
  test(`hot-shots over ${protocol}: queries return what was sent`, async () => {
    const [host, port] = (await collector(name)).address.split(':')
    const failures = []
    const client = new StatsD({
      host,
      port: Number(port),
      protocol,
      prefix,
      maxBufferSize: 1_000,
      bufferFlushInterval: 20,
      errorHandler: (failure) => failures.push(failure),
    })
    for (let round = 0; round < 500; round += 1) {
      client.increment('hits', round % 3, { region: round % 2 ? 'north' : 'south', other: 'x' })
      client.timing('load', round)
      client.set('users', `user ${round % 40}`)
    }
    client.decrement('hits')
    client.gauge('players', 17)
    client.gaugeDelta('players', -5)
    client.histogram('size', 2.5)
    client.distribution('size', 3.5)
    const counters = await waitForAccepted(name, 1_505)
    assert.deepEqual([counters.accepted, counters.refused], [1_505, 0])
    const sums = [0, 1].map((half) =>
      [...Array(500).keys()].filter((round) => round % 2 === half).reduce((sum, round) => sum + (round % 3), 0),
    )
    assert.equal(await queryMeasure(`${prefix}hits`, 'sum'), sums[0] + sums[1] - 1)
    assert.equal(await queryMeasure(`${prefix}hits`, 'sum', 'south'), sums[0])
    assert.equal(await queryMeasure(`${prefix}hits`, 'sum', 'north'), sums[1])
    assert.equal(await queryMeasure(`${prefix}load`, 'avg'), 249.5)
    assert.equal(await queryMeasure(`${prefix}load`, 'max'), 499)
    assert.equal(await queryMeasure(`${prefix}users`, 'uniques'), 40)
    assert.equal(await queryMeasure(`${prefix}players`, 'last'), 12)
    assert.equal(await queryMeasure(`${prefix}size`, 'sum'), 6)
    await new Promise((resolve) => client.close(resolve))
    assert.deepEqual(failures, [])
  })
}

for (const [form, Exporter] of [
  ['protobuf', ProtoExporter],
  ['JSON', JsonExporter],
]) {
  for (const temporality of ['DELTA', 'CUMULATIVE']) {
    const prefix = `${form}.${temporality}`.toLowerCase()
    test(`OpenTelemetry's exporter, ${form}, ${temporality}: queries return what was sent`, async () => {
      const exporter = new Exporter({
        url: `${url()}/v1/metrics`,
        headers: headers(),
        compression: 'gzip',
        temporalityPreference: AggregationTemporality[temporality],
      })
      const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
      const resource = resourceFromAttributes({ 'service.name': 'game', region: 'north' })
      const provider = new MeterProvider({ readers: [reader], resource })
      const meter = provider.getMeter('test')
      const [hits, load] = [meter.createCounter(`${prefix}.hits`), meter.createHistogram(`${prefix}.load`)]
      const players = meter.createUpDownCounter(`${prefix}.players`)
      const heat = meter.createObservableGauge(`${prefix}.heat`)
      let degrees = 0
      heat.addCallback((result) => result.observe(degrees))
      for (let round = 1; round <= 3; round += 1) {
        for (let number = 0; number < 100; number += 1) {
          hits.add(number, { level: `l${number % 2}` })
          load.record(number * round)
        }
        players.add(10 - 3 * round)
        degrees = 20.5 + round
        await reader.forceFlush()
      }
      await provider.shutdown()
      assert.equal(await queryMeasure(`${prefix}.hits`, 'sum'), 3 * 4_950)
      assert.equal(await queryMeasure(`${prefix}.hits`, 'sum', 'north'), 3 * 4_950)
      assert.equal(await queryMeasure(`${prefix}.load`, 'count'), 300)
      assert.equal(await queryMeasure(`${prefix}.load`, 'sum'), 6 * 4_950)
      assert.equal(await queryMeasure(`${prefix}.load`, 'max'), 297)
      assert.equal(await queryMeasure(`${prefix}.players`, 'last'), 12)
      assert.equal(await queryMeasure(`${prefix}.heat`, 'last'), 23.5)
    })
  }
}

test('every sample is in the ingest accounting', async () => {
  const { endpoints } = await request('/v1/load')
  const countsByEndpoint = Object.fromEntries(endpoints.map((row) => [row.endpoint, [row.accepted, row.received]]))
  assert.deepEqual(countsByEndpoint.statsd, [3_010, 3_010])
  assert.equal(countsByEndpoint.otlp[0], countsByEndpoint.otlp[1])
})
