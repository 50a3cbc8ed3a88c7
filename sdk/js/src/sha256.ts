/**
 * SHA-256 (FIPS 180-4) in JavaScript, for pages over plain HTTP, where browsers disable WebCrypto, such as a
 * game in a classroom network. `import { sha256 } from 'playmeter/sha256'` and pass it as the option `sha256`.
 */

const ROUNDS: number[] = []
const START: number[] = []
for (let n = 2; ROUNDS.length < 64; n++) {
  let prime = true
  for (let d = 2; d * d <= n; d++) prime &&= n % d > 0
  if (!prime) continue
  // The first 32 bits of the fractional parts of the square roots of 8 primes and the cube roots of 64 primes.
  if (n < 20) START.push((n ** (1 / 2) * 2 ** 32) | 0)
  ROUNDS.push((n ** (1 / 3) * 2 ** 32) | 0)
}

export function sha256(message: Uint8Array): Uint8Array {
  const { length } = message
  const padded = new Uint8Array(((length + 72) >> 6) << 6)
  padded.set(message)
  padded[length] = 0x80
  const view = new DataView(padded.buffer)
  view.setBigUint64(padded.length - 8, BigInt(length * 8))
  const state = START.slice()
  for (let at = 0; at < padded.length; at += 64) mix(state, view, at)
  state.forEach((word, i) => view.setInt32(4 * i, word))
  return padded.slice(0, 32)
}

function mix(state: number[], view: DataView, at: number): void {
  const w = new Int32Array(64)
  let [a, b, c, d, e, f, g, h] = state as [number, number, number, number, number, number, number, number]
  for (let i = 0; i < 64; i++) {
    const x = w[i - 15]!
    const y = w[i - 2]!
    w[i] =
      i < 16
        ? view.getInt32(at + 4 * i)
        : w[i - 16]! +
          w[i - 7]! +
          (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) +
          (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10))
    const t = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i]! + w[i]!
    const u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
    ;[a, b, c, d, e, f, g, h] = [(t + u) | 0, a, b, c, (d + t) | 0, e, f, g]
  }
  ;[a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i]! + word) | 0))
}

function turn(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}
