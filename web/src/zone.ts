/** Times as a form shows them, in the game's zone, and as the server has them. */

/** `2026-11-20T09:30` in the zone; with seconds where there are any. What is no time: nothing. */
export function toLocal(iso: string | undefined, tz: string): string {
  const ms = Date.parse(iso ?? '')
  if (Number.isNaN(ms)) return ''
  const local = new Date(ms + offsetMs(ms, tz)).toISOString().slice(0, 19)
  return local.endsWith(':00') ? local.slice(0, 16) : local
}

/**
 * RFC 3339 of a clock's time in the zone; nothing for what is no time. An hour that is there twice is the first of them.
 */
export function fromLocal(local: string, tz: string): string | undefined {
  const asUtc = Date.parse(`${local}Z`)
  if (Number.isNaN(asUtc)) return undefined
  const before = asUtc - offsetMs(asUtc - 86_400_000, tz)
  const guess = before + offsetMs(before, tz) === asUtc ? before : asUtc - offsetMs(before, tz)
  return new Date(guess).toISOString()
}

/** How far clocks of the zone are ahead of UTC then. */
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
  const shown = Date.UTC(
    part('year'),
    part('month') - 1,
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  )
  return shown - Math.floor(ms / 1000) * 1000
}
