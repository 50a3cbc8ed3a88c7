import { expect, test } from 'vitest'
import { helloByCurl, signInPath } from './api'

test('a pasted link, path or token leads to the same place', () => {
  const path = '/sign-in?token=aB3-_x'
  expect(signInPath('http://127.0.0.1:8080/sign-in?token=aB3-_x')).toBe(path)
  expect(signInPath('  /sign-in?token=aB3-_x#top ')).toBe(path)
  expect(signInPath('aB3-_x\n')).toBe(path)
})

test('what has no token leads nowhere', () => {
  expect(signInPath('')).toBeUndefined()
  expect(signInPath('http://127.0.0.1:8080/')).toBeUndefined()
})

test('the command is ready to paste', () => {
  expect(helloByCurl('http://127.0.0.1:8080', 'pm_pk_x').replaceAll(' \\\n  ', ' ')).toBe(
    `curl -X POST http://127.0.0.1:8080/v1/events -H 'Authorization: Bearer pm_pk_x' ` +
      `-H 'Content-Type: application/json' -d '{"event":"hello","player":"ann","value":3}'`,
  )
})
