/** OpenTelemetry's exporters of traces and logs: spans and log records are counted as events. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { SeverityNumber } from '@opentelemetry/api-logs'
import { OTLPLogExporter as JsonLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import { OTLPLogExporter as ProtoLogExporter } from '@opentelemetry/exporter-logs-otlp-proto'
import { OTLPTraceExporter as JsonTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { OTLPTraceExporter as ProtoTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { BatchLogRecordProcessor, LoggerProvider } from '@opentelemetry/sdk-logs'
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { headers, queryMeasure, request, start, stop, url } from './server.mjs'

before(() => start([]))
after(stop)

const SPANS = 300
const RECORDS = 200
const resource = resourceFromAttributes({ 'service.name': 'game', 'service.version': '1.2' })

/** Keeps the results of an exporter: a request that failed as a whole is an error. */
function watched(exporter, failures) {
  const send = exporter.export.bind(exporter)
  exporter.export = (items, done) =>
    send(items, (result) => {
      if (result.error) failures.push(result.error)
      done(result)
    })
  return exporter
}

for (const [form, TraceExporter, LogExporter] of [
  ['protobuf', ProtoTraceExporter, ProtoLogExporter],
  ['json', JsonTraceExporter, JsonLogExporter],
]) {
  test(`spans as ${form} are events with their duration`, async () => {
    const failures = []
    const exporter = new TraceExporter({ url: `${url()}/v1/traces`, headers: headers(), compression: 'gzip' })
    const processor = new BatchSpanProcessor(watched(exporter, failures))
    const provider = new BasicTracerProvider({ resource, spanProcessors: [processor] })
    const tracer = provider.getTracer('test')
    const now = Date.now()
    for (let number = 0; number < SPANS; number += 1) {
      const span = tracer.startSpan(`${form}.load`, { startTime: now, attributes: { 'user.id': `player ${number % 7}`, number } })
      span.end(now + number)
    }
    await provider.shutdown()
    assert.deepEqual(failures, [])
    assert.equal(await queryMeasure(`${form}.load`, 'count'), SPANS)
    assert.equal(await queryMeasure(`${form}.load`, 'sum'), (SPANS * (SPANS - 1)) / 2)
    assert.equal(await queryMeasure(`${form}.load`, 'uniques'), 7)
  })

  test(`log records as ${form} are events`, async () => {
    const failures = []
    const exporter = new LogExporter({ url: `${url()}/v1/logs`, headers: headers() })
    const processor = new BatchLogRecordProcessor({ exporter: watched(exporter, failures), maxQueueSize: RECORDS })
    const provider = new LoggerProvider({ resource, processors: [processor] })
    const logger = provider.getLogger('test')
    for (let number = 0; number < RECORDS; number += 1) {
      logger.emit({
        eventName: `${form}.crash`,
        severityNumber: SeverityNumber.ERROR,
        severityText: 'ERROR',
        body: 'out of memory',
        attributes: { 'session.id': 's1', nested: { ignored: true } },
      })
    }
    await provider.forceFlush()
    await provider.shutdown()
    assert.deepEqual(failures, [])
    assert.equal(await queryMeasure(`${form}.crash`, 'count'), RECORDS)
  })
}

test('every record is in the ingest accounting', async () => {
  const { endpoints } = await request('/v1/load')
  const otlp = endpoints.find(({ endpoint }) => endpoint === 'otlp')
  assert.deepEqual([otlp.received, otlp.accepted], [2 * (SPANS + RECORDS), 2 * (SPANS + RECORDS)])
})
