import { expect, test } from 'vitest'
import type { QueryResult, Series } from '../../stream/protocol'
import { hostLines, hostsOf, isTruncated, partsOf } from './hosts'
import { hostQueries, lineResults, OVERVIEW, PART_KINDS, PART_METRICS, partResult, RANGES } from './queries'

const START = Date.parse('2026-11-20T10:00:00Z')

/** Builds a result from lines like `web-1 host.cpu 1 - 3`: values of a host or part in consecutive minutes, `-` if unknown. */
function result(by: string, ...lines: string[]): QueryResult {
  const series = lines.map((line): Series => {
    const [key = '', name = '', ...values] = line.split(' ')
    return { name, key: { [by]: key }, values: values.map((it) => (it === '-' ? null : Number(it))), total: 0 }
  })
  const length = series[0]?.values.length ?? 0
  const times = Array.from({ length }, (_, i) => new Date(START + i * 60_000).toISOString())
  return { as_of: { time: times.at(-1) ?? '', position: '0/0' }, step: 'minute', tz: 'UTC', times, series }
}

const TWO_HOSTS = result(
  'host',
  'web-10 host.memory_total 8 8 8',
  'web-10 host.memory_used 2 4 6',
  'web-2 host.memory_total 8 - -',
  'web-2 host.memory_used 4 - -',
  'web-2 host.cpu 50 - -',
  'web-2 host.disk_full 25 - -',
  '(other) host.memory_total 1 1 1',
)

test('a host has its latest values and is silent if they are old', () => {
  const hosts = hostsOf(TWO_HOSTS, START + 2 * 60_000 + 90_000)
  expect(hosts.map(({ name, isSilent, lastSeenMs }) => [name, isSilent, lastSeenMs - START])).toEqual([
    ['web-2', true, 0],
    ['web-10', false, 120_000],
  ])
  expect(hosts.map(({ memory, cpu, disk }) => [memory, cpu, disk])).toEqual([
    [0.5, 50, 0.25],
    [0.75, undefined, undefined],
  ])
  expect(hosts[0]?.cpuLine).toEqual([50, null, null])
})

test('lines of several results share the same times', () => {
  const first = result('none', 'x host.load_1 1 2 3')
  const second = result('none', 'x redis.keys 7 8')
  const lines = hostLines([first, undefined, second], 2)
  expect(lines.times).toEqual([START / 1000 + 60, START / 1000 + 120])
  expect(lines.of('host.load_1')).toEqual([2, 3])
  expect(lines.of('redis.keys')).toEqual([8, null])
  expect(lines.of('nginx.active')).toEqual([null, null])
  expect([lines.has(['nginx.active']), lines.has(['nginx.active', 'redis.keys'])]).toEqual([false, true])
})

test('the parts of a host are sorted greatest first and exclude those of other hosts', () => {
  const parts = partsOf(
    result(
      'host_part',
      'web-1/sda device.read 1',
      'web-1/sda device.busy 9',
      'web-1/sdb device.busy 20',
      'web-10/sda device.busy 99',
      'web-1// mount.used 5',
    ),
    'web-1',
    ['device.busy', 'device.read'],
  )
  expect(parts.map(({ name, of }) => [name, of('device.busy'), of('device.read')])).toEqual([
    ['sdb', 20, undefined],
    ['sda', 9, 1],
  ])
  expect(partsOf(undefined, 'web-1', ['device.busy'])).toEqual([])
  const unnamed = result('host_part', 'web-1/redis - 0')
  unnamed.series.forEach((series) => delete series.name)
  expect(partsOf(unnamed, 'web-1', ['agent.source_up']).map(({ of }) => of('agent.source_up'))).toEqual([0])
})

test('a result with an (other) row is truncated', () => {
  expect(isTruncated(TWO_HOSTS)).toBe(true)
  expect(isTruncated(result('host_part', '(other) mount.used 5'))).toBe(true)
  expect(isTruncated(result('host', 'web-2 host.cpu 5'))).toBe(false)
  expect(isTruncated(undefined)).toBe(false)
})

test('each kind of part has a query of its own, whose result is found by kind', () => {
  const queries = hostQueries('web-1', '60m')
  for (const kind of PART_KINDS) {
    const found = partResult(queries, kind)
    expect(found?.by).toEqual(['host_part'])
    expect(found?.metrics.map(({ metric }) => metric)).toEqual(PART_METRICS[kind])
  }
  expect(lineResults(queries).every(({ by, where }) => by === undefined && where?.host?.[0] === 'web-1')).toBe(true)
  expect(lineResults(queries).length + PART_KINDS.length).toBe(queries.length)
})

test('queries stay within the limits of metrics and points per query and of queries per stream', () => {
  const all = [OVERVIEW, ...hostQueries('web-1', '7d')]
  expect(Math.max(...all.map(({ metrics }) => metrics.length))).toBeLessThanOrEqual(10)
  expect(all.length).toBeLessThanOrEqual(20)
  const times = (last: string) => (last in RANGES ? RANGES[last as keyof typeof RANGES].count : 1)
  const points = all.map(({ metrics, last, top = 0 }) => times(last) * metrics.length * (top + 1))
  expect(Math.max(...points)).toBeLessThanOrEqual(1_000_000)
})
