import 'fake-indexeddb/auto'
import { expect, test } from 'vitest'
import { openIndexedStore, MemoryStore, type Store } from '../src/store.js'

let opened = 0
const STORES: [string, (max: number) => Promise<Store>][] = [
  ['memory', async (max) => new MemoryStore(max)],
  ['IndexedDB', (max) => openIndexedStore(`store-${++opened}`, max)],
]

for (const [kind, open] of STORES) {
  test(`${kind} returns events oldest first`, async () => {
    const store = await open(10)
    for (const id of ['a', 'b', 'c']) expect(await store.add([id, `text of ${id}`])).toBe(0)
    expect(await store.read(2)).toEqual([
      ['a', 'text of a'],
      ['b', 'text of b'],
    ])
    await store.remove(['a', 'b', 'never there'])
    expect(await store.read(2)).toEqual([['c', 'text of c']])
  })

  test(`${kind} stores an event with the same id once`, async () => {
    const store = await open(10)
    await store.add(['a', 'text'])
    await store.add(['a', 'text'])
    expect(await store.read(9)).toHaveLength(1)
  })

  test(`${kind} drops the oldest events when full and returns how many`, async () => {
    const store = await open(3)
    const lost = []
    for (const id of ['a', 'b', 'c', 'd', 'e']) lost.push(await store.add([id, id]))
    expect(lost).toEqual([0, 0, 0, 1, 1])
    expect((await store.read(9)).map(([id]) => id)).toEqual(['c', 'd', 'e'])
  })
}

test('IndexedDB keeps events after it is reopened', async () => {
  const store = await openIndexedStore('again', 10)
  await store.add(['a', 'text'])
  expect(await (await openIndexedStore('again', 10)).read(9)).toEqual([['a', 'text']])
})
