/**
 * A client of Playtomic's API with the same calls as its browser SDK, which sends the same bytes.
 *
 * Runs in a page and defines the global `Playtomic`.
 */
'use strict'

{
  let target, privateKey, publicKey

  /** The name of each call on the wire, and the values of the response that its callback gets. */
  const CALLS = {
    Newsletter: { subscribe: ['newsletter', 'subscribe', () => []] },
    GameVars: {
      load: ['gamevars', 'load', whole],
      loadSingle: ['gamevars', 'single', whole, (name) => ({ name })],
    },
    GeoIP: { lookup: ['geoip', 'lookup', whole] },
    PlayerLevels: {
      save: ['playerlevels', 'save', (answer) => [answer.level]],
      load: ['playerlevels', 'load', (answer) => [answer.level], (levelid) => ({ levelid })],
      list: ['playerlevels', 'list', listed('levels', 'numlevels')],
      rate: ['playerlevels', 'rate', () => [], (levelid, rating) => ({ levelid, rating })],
    },
    Leaderboards: {
      list: ['leaderboards', 'list', listed('scores', 'numscores')],
      save: ['leaderboards', 'save', () => []],
      saveAndList: ['leaderboards', 'saveandlist', listed('scores', 'numscores')],
    },
    Achievements: {
      list: ['achievements', 'list', listed('achievements')],
      stream: ['achievements', 'stream', listed('achievements', 'numachievements')],
      save: ['achievements', 'save', () => []],
    },
  }

  const Playtomic = {
    initialize(key, secret, url) {
      publicKey = key
      privateKey = secret
      target = `${url}${url.endsWith('/') ? '' : '/'}v1?publickey=${key}`
    },
  }

  for (const [section, calls] of Object.entries(CALLS)) {
    Playtomic[section] = {}
    for (const [name, [wireSection, action, pick, toParameters]] of Object.entries(calls)) {
      Playtomic[section][name] = (...args) => {
        const callback = args.pop()
        const parameters = toParameters ? toParameters(...args) : args[0]
        send(wireSection, action, parameters, (answer) => {
          const { success, errorcode } = answer
          callback(...pick(answer), { success, errorcode })
        })
      }
    }
  }
  globalThis.Playtomic = Playtomic

  function whole(answer) {
    return answer.success ? [answer] : [null]
  }

  function listed(list, count) {
    return (answer) => {
      const both = answer.success ? [answer[list], answer[count]] : [[], 0]
      return count ? both : [both[0]]
    }
  }

  /** Adds fields to the caller's parameters, as the SDK does: a second call with them sends the same keys in the same order. */
  function send(section, action, parameters = {}, callback) {
    parameters.section = section
    parameters.action = action
    parameters.publickey = publicKey
    const json = JSON.stringify(parameters)
    const request = new XMLHttpRequest()
    request.onload = () => callback(JSON.parse(request.responseText))
    request.onerror = () => callback({ success: false, errorcode: 1 })
    request.open('POST', target, true)
    request.send(`data=${base64(json)}&hash=${md5(json + privateKey)}`)
  }

  /** Encodes each UTF-16 unit on its own, also the halves of a surrogate pair. */
  function base64(text) {
    const bytes = []
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      if (unit < 0x80) bytes.push(unit)
      else if (unit < 0x800) bytes.push(0xc0 | (unit >> 6), 0x80 | (unit & 63))
      else bytes.push(0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 63), 0x80 | (unit & 63))
    }
    return btoa(String.fromCharCode(...bytes))
  }

  /** MD5 of UTF-16 units written as bytes: bits above a byte overlap the next byte of the same word. */
  function md5(text) {
    const words = new Int32Array((((text.length + 8) >> 6) + 1) * 16)
    for (let at = 0; at < text.length; at++) words[at >> 2] |= text.charCodeAt(at) << (8 * (at % 4))
    words[text.length >> 2] |= 0x80 << (8 * (text.length % 4))
    words[words.length - 2] = text.length * 8
    const sums = new Int32Array([0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476])
    for (let block = 0; block < words.length; block += 16) {
      const [a, b, c, d] = rounds(sums, words.subarray(block, block + 16))
      sums[0] += a
      sums[1] += b
      sums[2] += c
      sums[3] += d
    }
    const bytes = new Uint8Array(sums.buffer)
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  }

  function rounds([a, b, c, d], words) {
    const SHIFTS = [
      [7, 12, 17, 22],
      [5, 9, 14, 20],
      [4, 11, 16, 23],
      [6, 10, 15, 21],
    ]
    const STEPS = [
      [1, 0],
      [5, 1],
      [3, 5],
      [7, 0],
    ]
    for (let step = 0; step < 64; step++) {
      const round = step >> 4
      const mixed = [(b & c) | (~b & d), (b & d) | (c & ~d), b ^ c ^ d, c ^ (b | ~d)][round]
      const [stride, offset] = STEPS[round]
      const constant = Math.floor(Math.abs(Math.sin(step + 1)) * 2 ** 32)
      const sum = (a + mixed + constant + words[(stride * step + offset) % 16]) | 0
      const shift = SHIFTS[round][step % 4]
      ;[a, b, c, d] = [d, (b + ((sum << shift) | (sum >>> (32 - shift)))) | 0, b, c]
    }
    return [a, b, c, d]
  }
}
