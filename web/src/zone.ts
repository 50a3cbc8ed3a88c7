/** Converts times between RFC 3339 and the local time of a zone, as `datetime-local` inputs need it. */

/** Returns the local time in the zone, `2026-11-20T09:30`, with seconds if they are not zero; empty if `iso` is invalid. */
export function toLocal(iso: string | undefined, tz: string): string {
  const ms = Date.parse(iso ?? '')
  if (Number.isNaN(ms)) return ''
  const local = new Date(ms + offsetMs(ms, tz)).toISOString().slice(0, 19)
  return local.endsWith(':00') ? local.slice(0, 16) : local
}

/**
 * Returns the RFC 3339 time of a local time in the zone; `undefined` if it is invalid. A local time that occurs twice,
 * when clocks are set back, is its first occurrence.
 */
export function fromLocal(local: string, tz: string): string | undefined {
  const asUtc = Date.parse(`${local}Z`)
  if (Number.isNaN(asUtc)) return undefined
  const before = asUtc - offsetMs(asUtc - 86_400_000, tz)
  const guess = before + offsetMs(before, tz) === asUtc ? before : asUtc - offsetMs(before, tz)
  return new Date(guess).toISOString()
}

/** Returns the zone's offset from UTC at a time. */
function offsetMs(ms: number, tz: string): number {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: tz,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(ms)
  const part = (type: string) => Number(parts.find((part) => part.type === type)?.value)
  const localMs = Date.UTC(
    part('year'),
    part('month') - 1,
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  )
  return localMs - Math.floor(ms / 1000) * 1000
}
