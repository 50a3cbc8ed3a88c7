import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { sha256 } from '../src/sha256.js'
import { hex } from '../src/uuid.js'

test('sha256 returns the published test values', () => {
  const check = (text: string, expected: string) =>
    expect(hex(sha256(new TextEncoder().encode(text)))).toBe(expected)
  check('', 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  check('abc', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('sha256 equals node:crypto for all lengths up to 300 bytes', () => {
  for (let length = 0; length < 300; length++) {
    const bytes = Uint8Array.from({ length }, (_, i) => i * 31 + length)
    expect(hex(sha256(bytes))).toBe(createHash('sha256').update(bytes).digest('hex'))
  }
})
