/** Flows as the server tells them. */

/** One side of a flow. */
export interface End {
  id: string
  /** Where it sends from, as far as somebody said. */
  address: string | null
}

/** What one end sent to the other. */
export interface Direction {
  /** The highest number, on past the turn of its 16 or 32 bits. */
  highest: number
  received: number
  lost: number
  duplicated: number
  reordered: number
  /** Packets whose numbers fitted nowhere. */
  strays: number
  jitter_ms: number
  /** Told by the receiver's reports: the packets themselves do not pass here. */
  reported: boolean
}

export interface Quality {
  expected: number
  lost: number
  /** Of what was expected, 0 to 1. */
  loss: number
  jitter_ms: number
  rtt_ms: number | null
  /** 1 to 4.5. */
  mos: number
}

export interface Flow {
  id: string
  /** Who sent first. */
  from: End
  to: End
  /** RFC 3339, as all times. */
  started: string
  last_seen: string
  /** How often an end's address changed. */
  moves: number
  /** What `from` sent. */
  sent: Direction
  /** What `to` sent. */
  received: Direction
  /** Over its whole life. */
  quality: Quality
  /** Over the last minute; of those that run. */
  recent?: Quality
  ended?: string
  ended_by?: 'bye' | 'silence'
  seconds?: number
}

/** How all that run do. What no flow knows is null. */
export interface Now {
  /** How many began within a minute. */
  began: number
  expected: number
  lost: number
  loss: number
  mos: { p10: number; p50: number } | null
  /** How many flows have a MOS of 1.0 to 1.1, 1.1 to 1.2, and so on. */
  mos_tenths: number[]
  jitter_ms: { p50: number; p90: number } | null
  rtt_ms: { p50: number; p90: number } | null
}

/** What the stream says, whole each time. The worst 50 are in it, the worst first. */
export interface FlowsMessage {
  as_of: { time: string }
  running: number
  now: Now
  flows: Flow[]
}

/** A page of those that run. */
export interface Leaf {
  flows: Flow[]
  /** How many fit what was asked for. */
  matched: number
  running: number
  page: number
  per_page: number
}

/** What the flow does now or, when it is over, did over its life. */
export function qualityOf(flow: Flow): Quality {
  return flow.recent ?? flow.quality
}

/** `ann → bo`. */
export function nameOf({ from, to }: Flow): string {
  return `${from.id} → ${to.id}`
}

/** How many seconds it took, or has been running until then. */
export function secondsOf(flow: Flow, nowMs: number): number {
  return flow.seconds ?? Math.max(0, (nowMs - Date.parse(flow.started)) / 1000)
}

/** What the list can be ordered by, in words. */
export const SORTS = {
  mos: 'Worst sound first',
  loss: 'Most loss first',
  jitter: 'Most jitter first',
  rtt: 'Longest round trip first',
  started: 'Newest first',
  last_seen: 'Last packet first',
} as const
export type Sort = keyof typeof SORTS

/** The line that makes a flow: one packet is enough. */
export function firstFlowByCurl(origin: string): string {
  return [
    `curl -X POST ${origin}/v1/flows/packets`,
    `-H 'Authorization: Bearer SECRET_KEY'`,
    `-d '${JSON.stringify({ from: 'ann', to: 'bo', seq: 1 })}'`,
  ].join(' \\\n  ')
}

/** The command that takes RTCP instead. */
export const BY_RTCP = 'playmeter serve --rtcp 127.0.0.1:5005'
