import { expect, test } from 'vitest'
import { ANIMALS, animalOf, anyFriend, anyWord, friendFrom, nameOf } from '../src/names'
import { dice } from './dice'

test('a name is a word and an animal, and the animal is known by it', () => {
  const random = dice(7)
  for (let n = 0; n < 100; n++) {
    const friend = anyFriend(random)
    expect(nameOf(friend)).toMatch(/^[A-Z][a-z]+ [A-Z][a-z]+$/)
    expect(animalOf(nameOf(friend))).toBe(friend.animal)
  }
})

test('any other name has a face as well, always the same', () => {
  expect(ANIMALS).toContain(animalOf('ann-42'))
  expect(animalOf('ann-42')).toBe(animalOf('ann-42'))
  expect(ANIMALS).toContain(animalOf(''))
})

test('another word is another word', () => {
  const random = dice(5)
  for (let n = 0; n < 100; n++) expect(anyWord(random, 'Happy')).not.toBe('Happy')
})

test('what was remembered is believed only if it can be', () => {
  expect(friendFrom({ animal: 'Fox', word: 'Brave' })).toEqual({ animal: 'Fox', word: 'Brave' })
  for (const value of [
    undefined,
    null,
    'Fox',
    {},
    { animal: 'Rat', word: 'Brave' },
    { animal: 'Fox', word: 1 },
  ]) {
    expect(friendFrom(value)).toBeUndefined()
  }
})
