/** A window of counts per second that moves on, whatever the order and overlap of what arrives. */
import type { Seconds } from '../../stream/protocol'

/** How many seconds the page shows. */
export const SECONDS_SHOWN = 120

/** How long after its end a second without word counts as a second without events. */
const SILENCE_MEANS_ZERO_S = 3

/** How many are kept: the newest is still counting, and some are shown late. */
const SECONDS_KEPT = SECONDS_SHOWN + 10

export interface Window {
  /** Epoch seconds of the first slot. */
  from: number
  accepted: Counts
  refused: Counts
}

/** `null` is a second before the page knew anything. */
type Counts = (number | null)[]

/** Both windows in one that ends where the newer ends. `next` wins overlaps. */
export function merge(old: Window, next: Window, kept = SECONDS_KEPT): Window {
  const end = Math.max(endOf(old), endOf(next))
  const from = Math.max(end - kept, Math.min(old.from, next.from))
  return cut(from, end, (field, at) => valueAt(next, field, at) ?? valueAt(old, field, at) ?? 0)
}

export function windowOf(seconds: Seconds): Window {
  const from = Math.floor(Date.parse(seconds.from) / 1000)
  return { from, accepted: seconds.accepted, refused: seconds.refused }
}

/**
 * The last `length` complete seconds. The second that `asOf` falls into still counts and is left
 * out; while the stream is live, seconds that nobody reported were quiet.
 */
export function lastComplete(
  window: Window,
  asOfMs: number,
  nowMs: number,
  live: boolean,
  length = SECONDS_SHOWN,
): Window {
  const reported = Math.min(endOf(window), Math.floor(asOfMs / 1000))
  const quiet = Math.floor(nowMs / 1000) - SILENCE_MEANS_ZERO_S
  const end = live ? Math.max(reported, quiet) : reported
  const value = (at: number) => (at < window.from ? null : 0)
  return cut(end - length, end, (field, at) => valueAt(window, field, at) ?? value(at))
}

/** The mean of the last `over` slots. */
export function meanOfLast(values: Counts, over: number): number {
  const last = values.slice(-over).filter((value) => value !== null)
  return last.length === 0 ? 0 : last.reduce((sum, value) => sum + value, 0) / last.length
}

type Field = 'accepted' | 'refused'

type ValueAt = (field: Field, at: number) => number | null

function cut(from: number, end: number, value: ValueAt): Window {
  const slots = (field: Field) => Array.from({ length: end - from }, (_, i) => value(field, from + i))
  return { from, accepted: slots('accepted'), refused: slots('refused') }
}

function valueAt(window: Window, field: Field, at: number): number | null | undefined {
  return window[field][at - window.from]
}

function endOf(window: Window): number {
  return window.from + window.accepted.length
}
