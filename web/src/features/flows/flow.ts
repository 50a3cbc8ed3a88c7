/** Flows as returned by the server. */

/** One side of a flow. */
export interface FlowEnd {
  id: string
  /** The address it sends from, if known. */
  address: string | null
}

/** The packets that one end sent to the other. */
export interface FlowDirection {
  /** The highest sequence number, continued past the wraparound of its 16 or 32 bits. */
  highest: number
  received: number
  lost: number
  duplicated: number
  reordered: number
  /** Packets whose sequence number fits no position of the flow. */
  strays: number
  jitter_ms: number
  /** Taken from the receiver's reports; the packets themselves were not seen. */
  reported: boolean
}

export interface FlowQuality {
  expected: number
  lost: number
  /** Share of the expected packets, 0 to 1. */
  loss: number
  jitter_ms: number
  rtt_ms: number | null
  /** 1 to 4.5. */
  mos: number
}

export interface Flow {
  id: string
  /** The end that sent first. */
  from: FlowEnd
  to: FlowEnd
  /** RFC 3339, as all times. */
  started: string
  last_seen: string
  /** The number of address changes of either end. */
  moves: number
  /** Packets sent by `from`. */
  sent: FlowDirection
  /** Packets sent by `to`. */
  received: FlowDirection
  /** Quality of the whole flow. */
  quality: FlowQuality
  /** Quality of the last minute; only for active flows. */
  recent?: FlowQuality
  ended?: string
  ended_by?: 'bye' | 'silence'
  seconds?: number
}

/** Quality of all active flows. A value that no flow reports is null. */
export interface FlowsSummary {
  /** The number of flows that started within the last minute. */
  began: number
  expected: number
  lost: number
  loss: number
  mos: { p10: number; p50: number } | null
  /** Histogram: the number of flows with a MOS of 1.0 to 1.1, 1.1 to 1.2, and so on. */
  mos_tenths: number[]
  jitter_ms: { p50: number; p90: number } | null
  rtt_ms: { p50: number; p90: number } | null
}

/** A message of the stream. Each is complete and contains the 50 worst flows, worst first. */
export interface FlowsMessage {
  as_of: { time: string }
  running: number
  now: FlowsSummary
  flows: Flow[]
}

/** A page of active flows. */
export interface FlowPage {
  flows: Flow[]
  /** The number of flows that match the filters. */
  matched: number
  running: number
  page: number
  per_page: number
}

/** Returns the recent quality of an active flow, or the overall quality of one that ended. */
export function currentQuality(flow: Flow): FlowQuality {
  return flow.recent ?? flow.quality
}

/** `ann → bo`. */
export function flowName({ from, to }: Flow): string {
  return `${from.id} → ${to.id}`
}

/** Returns the duration in seconds, up to `nowMs` if the flow is active. */
export function durationSeconds(flow: Flow, nowMs: number): number {
  return flow.seconds ?? Math.max(0, (nowMs - Date.parse(flow.started)) / 1000)
}

/** The sort orders of the list. */
export const SORTS = {
  mos: 'Worst quality first',
  loss: 'Highest loss first',
  jitter: 'Highest jitter first',
  rtt: 'Longest round trip first',
  started: 'Newest first',
  last_seen: 'Most recent packet first',
} as const
export type Sort = keyof typeof SORTS

/** Returns the curl command that creates a flow by reporting one packet. */
export function samplePacketCurl(origin: string): string {
  return [
    `curl -X POST ${origin}/v1/flows/packets`,
    `-H 'Authorization: Bearer SECRET_KEY'`,
    `-d '${JSON.stringify({ from: 'ann', to: 'bo', seq: 1 })}'`,
  ].join(' \\\n  ')
}

/** The command that starts the server with an RTCP listener. */
export const RTCP_COMMAND = 'playmeter serve --rtcp 127.0.0.1:5005'
