/**
 * Makes the API calls of a game and returns the responses. Runs in a page that has loaded `Playtomic`.
 *
 * Each step is `[section, call, arguments]`; the responses are returned in the same order.
 */
'use strict'

globalThis.play = async (url, steps) => {
  Playtomic.initialize('testpublickey', 'testprivatekey', url)
  const responses = []
  const ids = []
  for (const [section, call, args] of steps) {
    const callArgs = JSON.parse(JSON.stringify(args).replaceAll('"LEVEL"', () => JSON.stringify(ids[0] ?? 'LEVEL')))
    const answer = await new Promise((resolve) => Playtomic[section][call](...callArgs, (...values) => resolve(values)))
    const response = answer.pop()
    if (call === 'save' && answer[0]?.levelid) ids.push(answer[0].levelid)
    responses.push({ call: `${section}.${call}`, success: response.success, code: response.errorcode, answer })
  }
  return responses
}
