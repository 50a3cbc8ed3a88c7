import { expect, test } from 'vitest'
import { asCurl, asJavaScript, asPython } from './code'

const REQUESTS = [{ path: '/v1/explore', body: { event: "it's", by: ['country'], where: [{ property: 'props.vip', op: '=', value: true }] } }]
const ORIGIN = 'https://stats.example'

test('the curl command quotes the body for the shell', () => {
  const command = asCurl(ORIGIN, REQUESTS)
  expect(command).toContain('curl -X POST https://stats.example/v1/explore')
  expect(command).toContain(`-d '{"event":"it'\\''s","by":["country"]`)
})

test('the scripts contain the request', () => {
  expect(asJavaScript(ORIGIN, REQUESTS)).toContain(`ask('/v1/explore', {`)
  expect(asPython(ORIGIN, REQUESTS)).toContain(`ask("/v1/explore", {"event": "it's", "by": ["country"], "where": [{"property": "props.vip", "op": "=", "value": True}]})`)
})
