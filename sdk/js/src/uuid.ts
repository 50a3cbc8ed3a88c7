/** UUIDs of version 7 (RFC 9562). They begin with the time, which makes deduplication on the server cheapest. */

let ms = 0
/** The 12 bits after the time: a counter that keeps the ids of a millisecond in order. */
let counter = 0

export function uuid(now = Date.now()): string {
  if (now > ms) {
    ms = now
    counter = 0
  } else if (++counter > 0xfff) {
    ms++
    counter = 0
  }
  const random = crypto.getRandomValues(new Uint8Array(8))
  random[0] = (random[0]! & 0x3f) | 0x80
  const text = ms.toString(16).padStart(12, '0') + '7' + counter.toString(16).padStart(3, '0') + hex(random)
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
