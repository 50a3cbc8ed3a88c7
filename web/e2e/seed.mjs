/** What the tests of live-ops find on any server: made by its API, under names of this run alone. */
import { createHash, createHmac, randomUUID } from 'node:crypto'
import { ask, world } from './world.mjs'

export const run = Date.now().toString(36)
const PICTURE =
  'data:image/gif;base64,R0lGODlhAgACAPAAAKrX6zx4TSwAAAAAAgACAAACA0QSBQA7'

export async function seedVars(name) {
  await ask('PUT', `/v1/vars/${name}`, { value: 1 })
  await ask('PUT', `/v1/vars/${name}`, {
    value: 1.5,
    description: 'How fast the otter runs',
    conditions: [
      { name: 'fast', value: 2, country: ['FR'], platform: ['web'], percent: { to: 25 } },
      { name: 'tester', value: 3, segment: ['testers'] },
    ],
  })
}

/** A board of 30 players, and one score that waits: nobody is that quick. */
export async function seedBoard(table) {
  await ask('PUT', `/v1/boards/${table}`, { title: 'Stars of spring', filters: ['car'] })
  for (let i = 0; i < 30; i++) {
    const fields = { car: ['red', 'blue'][i % 2] }
    await submit(table, { player: `p-${i}`, name: `Brave Otter ${i}`, score: 1_000 - i, subscore: i, fields })
  }
  await ask('PUT', `/v1/boards/${table}`, { checks: { min_play_s: 10 } })
  await submitAtOnce(table, { player: 'eve', name: 'Eve', score: 99_999 })
}

/** A score that is signed by a session which has only just begun. */
export async function submitAtOnce(table, score) {
  const { session, key } = await ask('POST', '/v1/session', { player: score.player, name: score.name })
  const path = `/v1/boards/${table}/scores`
  const [at, nonce, body] = [Math.floor(Date.now() / 1000), randomUUID(), JSON.stringify(score)]
  const digest = createHash('sha256').update(body).digest('hex')
  const signed = [at, nonce, 'POST', path, digest].join('\n')
  const mac = createHmac('sha256', Buffer.from(key, 'base64url')).update(signed).digest('hex')
  const headers = {
    Authorization: `Bearer ${world.server.publicKey}`,
    'Content-Type': 'application/json',
    'X-Playmeter-Signature': `v1;${session};${at};${nonce};${mac}`,
  }
  const answer = await fetch(world.server.url + path, { method: 'POST', headers, body })
  if (!answer.ok) throw new Error(`score: ${answer.status} ${await answer.text()}`)
}

export function submit(table, score) {
  return ask('POST', `/v1/boards/${table}/scores`, score)
}

/** A level that was played, rated and flagged; its id. */
export async function seedLevel(name) {
  const made = { name, data: '####\n#..#\n####', player: `maker-${run}`, player_name: 'Ann', fields: { size: 'small' } }
  const { id } = await ask('POST', '/v1/levels', { ...made, thumb: PICTURE })
  await ask('POST', `/v1/levels/${id}/rating`, { player: 'bo', rating: 9 })
  await ask('POST', `/v1/levels/${id}/flags`, { player: 'cleo', reason: 'it cannot be won' })
  await played(id, { start: 20, win: 3, retry: 31, quit: 9 })
  return id
}

export async function played(level, counts) {
  const events = Object.entries(counts).flatMap(([state, count]) =>
    Array.from({ length: count }, (_, i) => ({ event: '$level', player: `p-${i}`, level, props: { state } })),
  )
  const answer = await fetch(`${world.server.url}/v1/events`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${world.server.publicKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(events),
  })
  if (!answer.ok) throw new Error(`events: ${answer.status}`)
}

/** Tells of packets of flows, a JSON object a line. */
export async function sendPackets(packets) {
  const answer = await fetch(`${world.server.url}/v1/flows/packets`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${world.server.secretKey}`, 'Content-Type': 'application/x-ndjson' },
    body: packets.map((packet) => JSON.stringify(packet)).join('\n'),
  })
  if (answer.status !== 202) throw new Error(`packets: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

/** A flow of `count` packets of which only one in `step` comes, 20 ms after each other. */
export function packetsOf(from, to, count, step = 1) {
  const at = Date.now() - 20 * count
  return Array.from({ length: count }, (_, i) => ({ from, to, seq: 1 + i * step, ts: 20 * i, at: at + 20 * i }))
}

/** The BYE of a flow. */
export function bye(from, to) {
  return { from, to, bye: true }
}
