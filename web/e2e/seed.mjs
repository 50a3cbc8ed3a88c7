/** Creates test data on any server through its API, under names that are unique to the run. */
import { createHash, createHmac, randomUUID } from 'node:crypto'
import { request, env } from './harness.mjs'

export const run = Date.now().toString(36)
const PICTURE =
  'data:image/gif;base64,R0lGODlhAgACAPAAAKrX6zx4TSwAAAAAAgACAAACA0QSBQA7'

export async function seedVars(name) {
  await request('PUT', `/v1/vars/${name}`, { value: 1 })
  await request('PUT', `/v1/vars/${name}`, {
    value: 1.5,
    description: 'How fast the otter runs',
    conditions: [
      { name: 'fast', value: 2, country: ['FR'], platform: ['web'], percent: { to: 25 } },
      { name: 'tester', value: 3, segment: ['testers'] },
    ],
  })
}

/** Creates a leaderboard with 30 players and one quarantined score. */
export async function seedBoard(table) {
  await request('PUT', `/v1/boards/${table}`, { title: 'Stars of spring', filters: ['car'] })
  for (let i = 0; i < 30; i++) {
    const fields = { car: ['red', 'blue'][i % 2] }
    await submit(table, { player: `p-${i}`, name: `Brave Otter ${i}`, score: 1_000 - i, subscore: i, fields })
  }
  await request('PUT', `/v1/boards/${table}`, { checks: { min_play_s: 10 } })
  await submitAtOnce(table, { player: 'eve', name: 'Eve', score: 99_999 })
}

/** Submits a score signed by a new session, so that the play time is zero. */
export async function submitAtOnce(table, score) {
  const { session, key } = await request('POST', '/v1/session', { player: score.player, name: score.name })
  const path = `/v1/boards/${table}/scores`
  const [at, nonce, body] = [Math.floor(Date.now() / 1000), randomUUID(), JSON.stringify(score)]
  const digest = createHash('sha256').update(body).digest('hex')
  const signed = [at, nonce, 'POST', path, digest].join('\n')
  const mac = createHmac('sha256', Buffer.from(key, 'base64url')).update(signed).digest('hex')
  const headers = {
    Authorization: `Bearer ${env.server.publicKey}`,
    'Content-Type': 'application/json',
    'X-Playmeter-Signature': `v1;${session};${at};${nonce};${mac}`,
  }
  const response = await fetch(env.server.url + path, { method: 'POST', headers, body })
  if (!response.ok) throw new Error(`score: ${response.status} ${await response.text()}`)
}

export function submit(table, score) {
  return request('POST', `/v1/boards/${table}/scores`, score)
}

/** Creates a level that was played, rated and flagged; returns its id. */
export async function seedLevel(name) {
  const made = { name, data: '####\n#..#\n####', player: `maker-${run}`, player_name: 'Ann', fields: { size: 'small' } }
  const { id } = await request('POST', '/v1/levels', { ...made, thumb: PICTURE })
  await request('POST', `/v1/levels/${id}/rating`, { player: 'bo', rating: 9 })
  await request('POST', `/v1/levels/${id}/flags`, { player: 'cleo', reason: 'it cannot be won' })
  await played(id, { start: 20, win: 3, retry: 31, quit: 9 })
  return id
}

export async function played(level, counts) {
  const events = Object.entries(counts).flatMap(([state, count]) =>
    Array.from({ length: count }, (_, i) => ({ event: '$level', player: `p-${i}`, level, props: { state } })),
  )
  const response = await fetch(`${env.server.url}/v1/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${env.server.publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(events),
  })
  if (!response.ok) throw new Error(`events: ${response.status}`)
}

/** Reports packets of flows, one JSON object per line. */
export async function sendPackets(packets) {
  const response = await fetch(`${env.server.url}/v1/flows/packets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${env.server.secretKey}`, 'Content-Type': 'application/x-ndjson' },
    body: packets.map((packet) => JSON.stringify(packet)).join('\n'),
  })
  if (response.status !== 202) throw new Error(`packets: ${response.status} ${await response.text()}`)
  return response.json()
}

/** Returns the packets of a flow, 20 ms apart, of which only one in `step` arrives. */
export function packetsOf(from, to, count, step = 1) {
  const at = Date.now() - 20 * count
  return Array.from({ length: count }, (_, i) => ({ from, to, seq: 1 + i * step, ts: 20 * i, at: at + 20 * i }))
}

/** Returns the BYE of a flow. */
export function bye(from, to) {
  return { from, to, bye: true }
}
