import { expect, test } from 'vitest'
import { sampleEventCurl, signInPath } from './api'

test('a pasted link, path or token gives the same sign-in path', () => {
  const path = '/sign-in?token=aB3-_x'
  expect(signInPath('http://127.0.0.1:8080/sign-in?token=aB3-_x')).toBe(path)
  expect(signInPath('  /sign-in?token=aB3-_x#top ')).toBe(path)
  expect(signInPath('aB3-_x\n')).toBe(path)
})

test('text without a token gives no sign-in path', () => {
  expect(signInPath('')).toBeUndefined()
  expect(signInPath('http://127.0.0.1:8080/')).toBeUndefined()
})

test('the curl command contains the public key and the sample event', () => {
  expect(sampleEventCurl('http://127.0.0.1:8080', 'pm_pk_x').replaceAll(' \\\n  ', ' ')).toBe(
    `curl -X POST http://127.0.0.1:8080/v1/events -H 'Authorization: Bearer pm_pk_x' ` +
      `-H 'Content-Type: application/json' -d '{"event":"hello","player":"ann","value":3}'`,
  )
})
