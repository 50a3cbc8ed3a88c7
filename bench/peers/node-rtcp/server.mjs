// The plain server that most teams would write first: a Node.js process that reads UDP and hands each packet to the
// worker that owns its flow, which decodes it and keeps the flow's figures.
//
// usage: node server.mjs UDP_PORT HTTP_PORT
// GET / tells `{"packets": ..., "flows": ...}` of all workers.
import cluster from 'node:cluster'
import { createSocket } from 'node:dgram'
import { createServer } from 'node:http'

const WORKERS = 2
const SENDER_REPORT = 200
const RECEIVER_REPORT = 201
const GOODBYE = 203

async function master([udpPort, httpPort]) {
  // Structured clones: a Buffer as JSON takes several times as long.
  cluster.setupPrimary({ serialization: 'advanced' })
  const workers = Array.from({ length: WORKERS }, () => cluster.fork())
  // What is sent before a worker listens is lost.
  await Promise.all(workers.map((worker) => new Promise((listens) => worker.once('message', listens))))
  const socket = createSocket({ type: 'udp4', recvBufferSize: 4 << 20 })
  socket.on('message', (bytes) => workers[owner(bytes)].send(bytes))
  socket.bind(udpPort, '127.0.0.1', () => answer(workers, httpPort))
}

/** Both ends of a flow report to the same worker. */
function owner(bytes) {
  return bytes.length < 32 ? 0 : ((bytes.readUInt32BE(4) ^ bytes.readUInt32BE(28)) >>> 0) % WORKERS
}

function answer(workers, httpPort) {
  createServer(async (request, response) => {
    const totals = await Promise.all(workers.map(totalsOf))
    const sum = (name) => totals.reduce((sum, each) => sum + each[name], 0)
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
      take(flows, message)
    }
  })
  process.send('listens')
}

/** Reads a compound (RFC 3550, 6) and notes what it reports. */
function take(flows, bytes) {
  let at = 0
  while (at + 8 <= bytes.length) {
    const type = bytes[at + 1]
    const count = bytes[at] & 31
    const end = at + 4 * (bytes.readUInt16BE(at + 2) + 1)
    if (bytes[at] >> 6 !== 2 || end > bytes.length) return
    const by = bytes.readUInt32BE(at + 4)
    if (type === SENDER_REPORT || type === RECEIVER_REPORT) {
      const blocks = at + (type === SENDER_REPORT ? 28 : 8)
      for (let block = blocks; block + 24 <= Math.min(end, blocks + 24 * count); block += 24) report(flows, by, bytes, block)
    } else if (type === GOODBYE) {
      for (const [pair, flow] of flows) if (flow.ends.includes(by)) flows.delete(pair)
    }
    at = end
  }
}

function report(flows, by, bytes, at) {
  const about = bytes.readUInt32BE(at)
  const pair = by < about ? `${by}-${about}` : `${about}-${by}`
  let flow = flows.get(pair)
  if (!flow) {
    flow = { ends: [by, about], began: Date.now(), directions: {} }
    flows.set(pair, flow)
  }
  flow.seen = Date.now()
  flow.directions[about] = {
    fractionLost: bytes[at + 4] / 256,
    lost: bytes.readIntBE(at + 5, 3),
    highest: bytes.readUInt32BE(at + 8),
    jitter: bytes.readUInt32BE(at + 12),
    roundTrip: roundTrip(flow.seen, bytes.readUInt32BE(at + 16), bytes.readUInt32BE(at + 20)),
  }
}

/** A - LSR - DLSR in seconds, all in units of 1/65,536 s; nothing where no report came before. */
function roundTrip(now, lastReport, delay) {
  if (lastReport === 0) return undefined
  const middle = Math.floor((now / 1000 + 2_208_988_800) * 65_536) >>> 0
  return ((middle - lastReport - delay) >>> 0) / 65_536
}

if (cluster.isPrimary) master(process.argv.slice(2))
else worker()
