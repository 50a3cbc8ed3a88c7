/** Names that say nothing about the child who plays: a word and an animal. */
import { one, type Random } from './puzzle'

export const ANIMALS = ['Bear', 'Cat', 'Fox', 'Frog', 'Owl', 'Panda', 'Pig', 'Rabbit'] as const
export type Animal = (typeof ANIMALS)[number]

const WORDS = [
  'Brave',
  'Happy',
  'Sunny',
  'Clever',
  'Gentle',
  'Jolly',
  'Lucky',
  'Merry',
  'Quick',
  'Silly',
  'Sparkly',
  'Fuzzy',
  'Bouncy',
  'Kind',
  'Mighty',
  'Dreamy',
]

export interface Friend {
  animal: Animal
  word: string
}

export function anyFriend(random: Random): Friend {
  return { animal: one(ANIMALS, random), word: anyWord(random) }
}

export function anyWord(random: Random, unlike?: string): string {
  return one(
    WORDS.filter((word) => word !== unlike),
    random,
  )
}

export function nameOf({ animal, word }: Friend): string {
  return `${word} ${animal}`
}

/** The face that goes with a name from a board; others' names get one as well, always the same. */
export function animalOf(name: string): Animal {
  const last = name.split(' ').at(-1)
  const known = ANIMALS.find((animal) => animal === last)
  if (known) return known
  const sum = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)!) % 65_521, 7)
  return ANIMALS[sum % ANIMALS.length]!
}

/** What was remembered, if it is still a friend. */
export function friendFrom(value: unknown): Friend | undefined {
  const { animal, word } = (value ?? {}) as Partial<Friend>
  return ANIMALS.includes(animal as Animal) && WORDS.includes(word as string)
    ? { animal: animal!, word: word! }
    : undefined
}
