/** Sends events of some days for the pages that ask questions about them. */
import { run } from './seed.mjs'
import { env } from './harness.mjs'

const HOUR_MS = 3_600_000
const BATCH = 500

/** Sends events `{event, player, hoursAgo, ...}` with the secret key, which may send past events. */
export async function sendHistory(events) {
  const now = Date.now()
  const all = events.map(({ hoursAgo = 0, ...event }) => ({ ...event, ts: new Date(now - hoursAgo * HOUR_MS).toISOString() }))
  for (let i = 0; i < all.length; i += BATCH) {
    const response = await fetch(`${env.server.url}/v1/events`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${env.server.secretKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(all.slice(i, i + BATCH)),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`events: ${response.status} ${text}`)
  }
}

/** 40 players who start levels 1 to 4: half of them quit after level 2, and five after level 3. */
export function levelHistory(event = 'level_start') {
  return Array.from({ length: 40 }, (_, i) => {
    const levels = i < 20 ? 2 : i < 25 ? 3 : 4
    return Array.from({ length: levels }, (_, level) => ({
      event,
      player: `quit-${run}-${i}`,
      session: `quit-${run}-${i}-1`,
      level: String(level + 1),
      country: i % 2 ? 'FR' : 'DE',
      hoursAgo: 20 - level,
    }))
  }).flat()
}
