/** A sliding window of counts per second, built from messages that may overlap or arrive out of order. */
import type { Seconds } from '../../stream/protocol'

/** The number of seconds shown. */
export const SECONDS_SHOWN = 120

/** A second that the server has not reported this long after its end had no events. */
const ZERO_AFTER_S = 3

/** The number of seconds kept: more than shown, because the newest is incomplete and some are reported late. */
const SECONDS_KEPT = SECONDS_SHOWN + 10

export interface SecondsWindow {
  /** Epoch seconds of the first slot. */
  from: number
  accepted: Counts
  refused: Counts
  samples: Counts
}

/** `null`: a second before the first report. */
export type Counts = (number | null)[]

/** Merges two windows into one that ends with the newer. Where they overlap, `next` wins. */
export function merge(old: SecondsWindow, next: SecondsWindow, kept = SECONDS_KEPT): SecondsWindow {
  const end = Math.max(endOf(old), endOf(next))
  const from = Math.max(end - kept, Math.min(old.from, next.from))
  return buildWindow(from, end, (field, at) => valueAt(next, field, at) ?? valueAt(old, field, at) ?? 0)
}

export function windowOf(seconds: Seconds): SecondsWindow {
  const from = Math.floor(Date.parse(seconds.from) / 1000)
  return { from, accepted: seconds.accepted, refused: seconds.refused, samples: seconds.samples }
}

/**
 * Returns the last `length` complete seconds. The second of `asOf` is incomplete and left out. While
 * the stream is live, seconds that were not reported are zero.
 */
export function lastComplete(
  window: SecondsWindow,
  asOfMs: number,
  nowMs: number,
  live: boolean,
  length = SECONDS_SHOWN,
): SecondsWindow {
  const reported = Math.min(endOf(window), Math.floor(asOfMs / 1000))
  const zeroUntil = Math.floor(nowMs / 1000) - ZERO_AFTER_S
  const end = live ? Math.max(reported, zeroUntil) : reported
  const value = (at: number) => (at < window.from ? null : 0)
  return buildWindow(end - length, end, (field, at) => valueAt(window, field, at) ?? value(at))
}

/** Returns the mean of the last `slots` known counts. */
export function meanOfLast(values: Counts, slots: number): number {
  const last = values.slice(-slots).filter((value) => value !== null)
  return last.length === 0 ? 0 : last.reduce((sum, value) => sum + value, 0) / last.length
}

/** Returns for each slot the mean of the known counts among it and the `slots - 1` before it; `null` for an unknown slot. */
export function movingMean(values: Counts, slots: number): Counts {
  return values.map((value, i) => (value === null ? null : meanOfLast(values.slice(0, i + 1), slots)))
}

type Field = 'accepted' | 'refused' | 'samples'

type ValueAt = (field: Field, at: number) => number | null

function buildWindow(from: number, end: number, value: ValueAt): SecondsWindow {
  const slots = (field: Field) => Array.from({ length: end - from }, (_, i) => value(field, from + i))
  return { from, accepted: slots('accepted'), refused: slots('refused'), samples: slots('samples') }
}

function valueAt(window: SecondsWindow, field: Field, at: number): number | null | undefined {
  return window[field][at - window.from]
}

function endOf(window: SecondsWindow): number {
  return window.from + window.accepted.length
}
