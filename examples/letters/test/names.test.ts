import { expect, test } from 'vitest'
import { ANIMALS, animalOf, randomFriend, randomWord, parseFriend, nameOf } from '../src/names'
import { seededRandom } from './random'

test('a name has an adjective and an animal, and the animal is derived from it', () => {
  const random = seededRandom(7)
  for (let n = 0; n < 100; n++) {
    const friend = randomFriend(random)
    expect(nameOf(friend)).toMatch(/^[A-Z][a-z]+ [A-Z][a-z]+$/)
    expect(animalOf(nameOf(friend))).toBe(friend.animal)
  }
})

test('any other name always has the same animal', () => {
  expect(ANIMALS).toContain(animalOf('ann-42'))
  expect(animalOf('ann-42')).toBe(animalOf('ann-42'))
  expect(ANIMALS).toContain(animalOf(''))
})

test('a new word differs from the current one', () => {
  const random = seededRandom(5)
  for (let n = 0; n < 100; n++) expect(randomWord(random, 'Happy')).not.toBe('Happy')
})

test('a stored friend is parsed only if it is valid', () => {
  expect(parseFriend({ animal: 'Fox', word: 'Brave' })).toEqual({ animal: 'Fox', word: 'Brave' })
  for (const value of [
    undefined,
    null,
    'Fox',
    {},
    { animal: 'Rat', word: 'Brave' },
    { animal: 'Fox', word: 1 },
  ]) {
    expect(parseFriend(value)).toBeUndefined()
  }
})
