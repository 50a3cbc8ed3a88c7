import { expect, test } from 'vitest'
import { ALPHABET } from '../src/puzzle'
import { Run } from '../src/run'
import { seededRandom } from './random'

const SETTINGS = { letters: ALPHABET, row: 4, choices: 3 }

/** Plays a run with the given numbers of wrong choices. */
function play(wrong: number[]) {
  const run = new Run(wrong.length, 0, seededRandom(7))
  let at = 0
  for (const times of wrong) {
    const { choices, missing } = run.next(SETTINGS, at)!
    const others = choices.filter((letter) => letter !== missing)
    for (let n = 0; n < times; n++) run.choose(others[n % others.length]!, (at += 1_000))
    run.choose(missing, (at += 1_000))
  }
  return { run, at }
}

test('a puzzle gives three stars at the first try, two at the second and one after that', () => {
  const { run } = play([0, 1, 2, 7])
  expect(run.earned).toEqual([3, 2, 1, 1])
  expect([run.stars, run.over, run.perfect]).toEqual([7, true, false])
})

test('a run without wrong choices is perfect and its letters differ', () => {
  const { run, at } = play([0, 0, 0, 0, 0, 0])
  expect(run.perfect).toBe(true)
  expect(new Set(run.letters).size).toBe(6)
  expect(run.next(SETTINGS, at)).toBeUndefined()
  expect(run.quickness(at)).toBe(594)
})

test('a choice has its duration', () => {
  const run = new Run(1, 0, seededRandom(7))
  const { missing } = run.next(SETTINGS, 5_000)!
  expect(run.choose(missing, 7_500)).toEqual({ right: true, stars: 3, seconds: 2.5, tries: 1 })
})
