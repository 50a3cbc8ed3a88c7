/** Invented names that reveal nothing about the child: an adjective and an animal. */
import { pick, type Random } from './puzzle'

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

export function randomFriend(random: Random): Friend {
  return { animal: pick(ANIMALS, random), word: randomWord(random) }
}

export function randomWord(random: Random, except?: string): string {
  return pick(
    WORDS.filter((word) => word !== except),
    random,
  )
}

export function nameOf({ animal, word }: Friend): string {
  return `${word} ${animal}`
}

/** Returns the animal of a name on a leaderboard. Any other name always gets the same animal. */
export function animalOf(name: string): Animal {
  const last = name.split(' ').at(-1)
  const known = ANIMALS.find((animal) => animal === last)
  if (known) return known
  const sum = [...name].reduce((sum, letter) => (sum * 31 + letter.codePointAt(0)!) % 65_521, 7)
  return ANIMALS[sum % ANIMALS.length]!
}

/** Parses a stored friend; undefined if it is invalid. */
export function parseFriend(value: unknown): Friend | undefined {
  const { animal, word } = (value ?? {}) as Partial<Friend>
  return ANIMALS.includes(animal as Animal) && WORDS.includes(word as string)
    ? { animal: animal!, word: word! }
    : undefined
}
