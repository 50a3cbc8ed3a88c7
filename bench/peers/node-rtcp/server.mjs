// The plain server that most teams would write first: a Node.js process that reads UDP and passes each packet to the
// worker that owns its flow. The worker decodes it and keeps the flow's figures.
//
// usage: node server.mjs UDP_PORT HTTP_PORT
// GET / returns the totals of all workers: `{"packets": ..., "flows": ...}`.
import cluster from 'node:cluster'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:http'

const WORKERS = 2
const SENDER_REPORT = 200
const RECEIVER_REPORT = 201
const GOODBYE = 203

async function master([udpPort, httpPort]) {
  // Structured clones: serialising a Buffer as JSON takes several times as long.
  cluster.setupPrimary({ serialization: 'advanced' })
  const workers = Array.from({ length: WORKERS }, () => cluster.fork())
  // Messages sent before a worker listens are lost.
  await Promise.all(workers.map((worker) => new Promise((ready) => worker.once('message', ready))))
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 << 20 })
  socket.on('message', (bytes) => workers[workerOf(bytes)].send(bytes))
  socket.bind(udpPort, '127.0.0.1', () => serveTotals(workers, httpPort))
}

/** Returns the index of the worker; reports of both ends of a flow go to the same one. */
function workerOf(bytes) {
  return bytes.length < 32 ? 0 : ((bytes.readUInt32BE(4) ^ bytes.readUInt32BE(28)) >>> 0) % WORKERS
}

function serveTotals(workers, httpPort) {
  createServer(async (request, response) => {
    const totals = await Promise.all(workers.map(totalsOf))
    const sum = (name) => totals.reduce((sum, total) => sum + total[name], 0)
    response.end(JSON.stringify({ packets: sum('packets'), flows: sum('flows') }))
  }).listen(httpPort, '127.0.0.1')
}

function totalsOf(worker) {
  return new Promise((resolve) => {
    worker.once('message', resolve)
    worker.send('totals')
  })
}

function worker() {
  const flows = new Map()
  let packets = 0
  process.on('message', (message) => {
    if (message === 'totals') {
      process.send({ packets, flows: flows.size })
    } else {
      packets++
      applyCompound(flows, message)
    }
  })
  process.send('ready')
}

/** Decodes a compound packet (RFC 3550, 6) and applies its reports. */
function applyCompound(flows, bytes) {
  let at = 0
  while (at + 8 <= bytes.length) {
    const type = bytes[at + 1]
    const count = bytes[at] & 31
    const end = at + 4 * (bytes.readUInt16BE(at + 2) + 1)
    if (bytes[at] >> 6 !== 2 || end > bytes.length) return
    const reporter = bytes.readUInt32BE(at + 4)
    if (type === SENDER_REPORT || type === RECEIVER_REPORT) {
      const blocks = at + (type === SENDER_REPORT ? 28 : 8)
      for (let block = blocks; block + 24 <= Math.min(end, blocks + 24 * count); block += 24) applyReport(flows, reporter, bytes, block)
    } else if (type === GOODBYE) {
      for (const [pair, flow] of flows) if (flow.ends.includes(reporter)) flows.delete(pair)
    }
    at = end
  }
}

function applyReport(flows, reporter, bytes, at) {
  const source = bytes.readUInt32BE(at)
  const pair = reporter < source ? `${reporter}-${source}` : `${source}-${reporter}`
  let flow = flows.get(pair)
  if (!flow) {
    flow = { ends: [reporter, source], startedAt: Date.now(), directions: {} }
    flows.set(pair, flow)
  }
  flow.lastReportAt = Date.now()
  flow.directions[source] = {
    fractionLost: bytes[at + 4] / 256,
    lost: bytes.readIntBE(at + 5, 3),
    highest: bytes.readUInt32BE(at + 8),
    jitter: bytes.readUInt32BE(at + 12),
    roundTrip: roundTrip(flow.lastReportAt, bytes.readUInt32BE(at + 16), bytes.readUInt32BE(at + 20)),
  }
}

/** Returns A - LSR - DLSR in seconds, from units of 1/65,536 s; undefined if there was no earlier report. */
function roundTrip(now, lastReport, delay) {
  if (lastReport === 0) return undefined
  const middle = Math.floor((now / 1000 + 2_208_988_800) * 65_536) >>> 0
  return ((middle - lastReport - delay) >>> 0) / 65_536
}

if (cluster.isPrimary) master(process.argv.slice(2))
else worker()
