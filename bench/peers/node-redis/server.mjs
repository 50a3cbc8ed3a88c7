// The plain server that most teams would write first: Node.js http in front of Redis.
//
// For one event or an array of events it gives the same guarantees as Playmeter's ingest: events are validated,
// deduplicated by id for seven days, counted by minute, hour and day, and acknowledged after Redis has responded
// (its append-only file is synced for every write).
//
// usage: REDIS_PATH=/path/redis.sock node server.mjs PORT
import { createServer } from 'node:http'
import { createClient, defineScript } from 'redis'

const BODY_BYTES_MAX = 10 << 20
const EVENTS_MAX = 10_000
const ID_WINDOW_S = 7 * 86_400
const FUTURE_MS_MAX = 86_400_000
const LATE_MS_MAX = 30 * 86_400_000
const MINUTE_MS = 60_000

const FIELDS = new Set([
  'event', 'id', 'ts', 'player', 'session', 'value', 'props', 'source', 'platform', 'version', 'level', 'country',
])
const TEXTS = ['player', 'session', 'source', 'platform', 'version', 'level', 'country']
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

const client = createClient({
  socket: { path: process.env.REDIS_PATH },
  scripts: {
    // One atomic round trip for a whole request; the counters of a batch are summed before they are written. A
    // pipeline of SET followed by one of HINCRBY took a third to a half more CPU, for single events and for batches.
    // Numbers are passed as text: Lua would format them with printf for every event.
    // ARGV: id (or an empty string), name and minute of each event. Returns 1 for each new event, else 0.
    register: defineScript({
      NUMBER_OF_KEYS: 0,
      SCRIPT: `
        local call, new, counts = redis.call, {}, {}
        for i = 1, #ARGV, 3 do
          local id = ARGV[i]
          if id == '' or call('SET', 'id:' .. id, '1', 'NX', 'EX', '${ID_WINDOW_S}') then
            local names = counts[ARGV[i + 2]]
            if not names then
              names = {}
              counts[ARGV[i + 2]] = names
            end
            names[ARGV[i + 1]] = (names[ARGV[i + 1]] or 0) + 1
            new[#new + 1] = 1
          else
            new[#new + 1] = 0
          end
        end
        for minute, names in pairs(counts) do
          local m = 'm:' .. minute
          local h = 'h:' .. math.floor(minute / 60)
          local d = 'd:' .. math.floor(minute / 1440)
          for name, count in pairs(names) do
            call('HINCRBY', m, name, count)
            call('HINCRBY', h, name, count)
            call('HINCRBY', d, name, count)
          end
        end
        return new`,
      parseCommand(parser, events) {
        for (const { id, event, ts } of events) parser.push(id ?? '', event, String(Math.floor(ts / MINUTE_MS)))
      },
      transformReply: (reply) => reply,
    }),
  },
})

/** Returns why an event is rejected, or undefined; sets `ts` to epoch milliseconds. */
function rejectReason(event, now) {
  if (typeof event !== 'object' || event === null || Array.isArray(event)) return 'not_an_object'
  for (const field in event) if (!FIELDS.has(field)) return 'unknown_field'
  const { event: name, id, ts, value } = event
  if (typeof name !== 'string' || name.length === 0 || name.length > 200) return 'event_name'
  if (id !== undefined && !(typeof id === 'string' && UUID.test(id))) return 'id'
  for (const field of TEXTS) {
    const text = event[field]
    if (text !== undefined && !(typeof text === 'string' && text.length <= 128)) return field
  }
  if (value !== undefined && !Number.isFinite(value)) return 'value'
  if (typeof ts === 'string') event.ts = Date.parse(ts)
  else if (ts === undefined) event.ts = now
  if (!Number.isFinite(event.ts)) return 'ts'
  if (event.ts > now + FUTURE_MS_MAX) event.ts = now
  if (event.ts < now - LATE_MS_MAX) return 'late'
  return undefined
}

async function ingest(body) {
  const parsed = JSON.parse(body)
  const events = Array.isArray(parsed) ? parsed : [parsed]
  if (events.length > EVENTS_MAX) throw new RangeError('too many events')
  const now = Date.now()
  const results = []
  const valid = []
  const indexes = []
  for (let i = 0; i < events.length; i += 1) {
    const reason = rejectReason(events[i], now)
    if (reason === undefined) {
      valid.push(events[i])
      indexes.push(i)
    } else {
      results.push({ i, outcome: reason === 'late' ? 'late' : 'invalid', reason })
    }
  }
  const invalid = results.length
  const flags = valid.length === 0 ? [] : await client.register(valid)
  flags.forEach((isNew, k) => {
    if (!isNew) results.push({ i: indexes[k], outcome: 'duplicate' })
  })
  const duplicate = results.length - invalid
  return { accepted: valid.length - duplicate, duplicate, invalid, results }
}

const server = createServer((request, response) => {
  if (request.method !== 'POST' || !request.url.startsWith('/v1/events')) return respond(response, 404, { title: 'not found' })
  const chunks = []
  let bytes = 0
  request.on('data', (chunk) => {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) return request.destroy()
    chunks.push(chunk)
  })
  request.on('end', () => {
    const body = chunks.length === 1 ? chunks[0].toString() : Buffer.concat(chunks).toString()
    ingest(body).then(
      (receipt) => respond(response, 202, receipt),
      (error) => respond(response, error instanceof SyntaxError || error instanceof RangeError ? 400 : 503, { title: error.message }),
    )
  })
})

function respond(response, status, value) {
  const body = JSON.stringify(value)
  response.writeHead(status, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  response.end(body)
}

await client.connect()
server.keepAliveTimeout = 60_000
server.listen(Number(process.argv[2]), '127.0.0.1')

for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => process.exit(0))
