import { expect, test } from 'vitest'
import type { Client } from '../client'
import { LiveAnswer } from './live-answer.svelte'

/** A client whose requests are answered by the test. */
function fakeClient() {
  const sent: { body: unknown; signal: AbortSignal; answer: (body: unknown) => void; reject: (error: Error) => void }[] = []
  const ask = (_: string, body: unknown, signal: AbortSignal) =>
    new Promise((resolve, reject) => {
      signal.addEventListener('abort', () => reject(new Error('aborted')))
      sent.push({ body, signal, answer: (body) => resolve({ body, time: '2026-11-23T00:00:00Z' }), reject })
    })
  return { sent, client: { ask } as unknown as Client }
}

const settled = () => new Promise((resolve) => setTimeout(resolve))
const request = (body: string) => [{ path: '/v1/query', body }]

test('equal questions are asked once, and another one aborts the old', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  const ask = (body: string) => answer.ask<string>(request(body), ([response]) => `${response}`)
  ask('a')
  ask('a')
  expect(sent.length).toBe(1)
  ask('b')
  expect(sent[0]?.signal.aborted).toBe(true)
  sent[1]?.answer('B')
  await settled()
  expect([answer.result, answer.isLoading, answer.error]).toEqual(['B', false, undefined])
})

test('an error keeps the old result, and asking again removes the error', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  answer.ask<string>(request('a'), ([response]) => `${response}`)
  sent[0]?.answer('A')
  await settled()
  answer.refresh()
  sent[1]?.reject(new Error('busy'))
  await settled()
  expect([answer.result, String(answer.error)]).toEqual(['A', 'Error: busy'])
  answer.refresh()
  sent[2]?.answer('A2')
  await settled()
  expect([answer.result, answer.error]).toEqual(['A2', undefined])
})

test('a cancelled question keeps the old result and can be asked again', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  answer.ask<string>(request('a'), ([response]) => `${response}`)
  answer.cancel()
  await settled()
  expect([answer.isCancelled, answer.isLoading, answer.error, sent[0]?.signal.aborted]).toEqual([true, false, undefined, true])
  answer.refresh()
  sent[1]?.answer('A')
  await settled()
  expect([answer.result, answer.isCancelled]).toEqual(['A', false])
})

test('following an answer stops when the question changes', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  const stopped: string[] = []
  const ask = (body: string) => answer.ask<string>(request(body), ([response]) => `${response}`, (_, set) => {
    set(`${body}, live`)
    return () => stopped.push(body)
  })
  ask('a')
  sent[0]?.answer('A')
  await settled()
  expect([answer.result, stopped]).toEqual(['a, live', []])
  ask('b')
  expect(stopped).toEqual(['a'])
})

test('after a question that cannot be asked, trying again does not ask the old one', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  answer.ask<string>(request('a'), ([response]) => `${response}`)
  answer.fail(new Error('no metric'))
  answer.refresh()
  expect(sent.length).toBe(1)
  let retries = 0
  answer.fail(new Error('no schema'), () => (retries += 1))
  answer.refresh()
  expect([retries, sent.length]).toEqual([1, 1])
})

test('an answer is followed again after asking again failed', async () => {
  const { sent, client } = fakeClient()
  const answer = new LiveAnswer<string>(client)
  let following = 0
  answer.ask<string>(request('a'), ([response]) => `${response}`, () => {
    following += 1
    return () => (following -= 1)
  })
  sent[0]?.answer('A')
  await settled()
  answer.refresh()
  expect(following).toBe(0)
  sent[1]?.reject(new Error('busy'))
  await settled()
  expect([following, String(answer.error)]).toEqual([1, 'Error: busy'])
  answer.close()
  expect(following).toBe(0)
})
