/**
 * What a game does with the API, call by call, and what it is told. Runs in a page that has `Playtomic`.
 *
 * Each line is `[section, call, arguments]`; the answers come back in the same order.
 */
'use strict'

globalThis.play = async (url, lines) => {
  Playtomic.initialize('testpublickey', 'testprivatekey', url)
  const told = []
  const ids = []
  for (const [section, call, given] of lines) {
    const filled = JSON.parse(JSON.stringify(given).replaceAll('"LEVEL"', () => JSON.stringify(ids[0] ?? 'LEVEL')))
    const answer = await new Promise((resolve) => Playtomic[section][call](...filled, (...answer) => resolve(answer)))
    const response = answer.pop()
    if (call === 'save' && answer[0]?.levelid) ids.push(answer[0].levelid)
    told.push({ call: `${section}.${call}`, success: response.success, code: response.errorcode, answer })
  }
  return told
}
