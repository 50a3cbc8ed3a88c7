import { expect, test } from 'vitest'
import { Playmeter } from '../src/index.js'
import { sha256 } from '../src/sha256.js'
import { server } from './game.js'
import { PARAMETERS, program } from './readme.mjs'

test('the examples of the README work', async () => {
  const mock = await server()
  const logged: unknown[][] = []
  const AsyncFunction = (async () => {}).constructor as FunctionConstructor
  const run = new AsyncFunction(...PARAMETERS, program({ url: mock.url, key: mock.publicKey }))
  await run(Playmeter, sha256, { log: (...values: unknown[]) => logged.push(values) })
  expect(logged).toEqual([
    ['speed is', 1],
    [1, 'Brave Otter', 120],
    ['not_found', 404],
  ])
  const names = mock.game.events.map(({ event }: { event: string }) => event)
  expect(names).toEqual(['$view', 'jump', '$play', '$level', 'answer', '$identify'])
})
