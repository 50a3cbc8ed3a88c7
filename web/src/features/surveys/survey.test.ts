import { expect, test } from 'vitest'
import { bodyOf, draftOf, type Survey } from './survey'

const SURVEY: Survey = {
  key: 'fun',
  title: 'Fun?',
  questions: [
    { key: 'fun', kind: 'scale', text: 'How much?', min: 1, max: 5 },
    { key: 'best', kind: 'choice', text: 'Which?', options: ['A', 'B, or C'] },
    { key: 'why', kind: 'text', text: 'Why?', max: 500 },
  ],
  audience: { country: ['FR', 'DE'] },
  starts_at: '2026-11-20T08:30:00.000Z',
}

test('an unedited form saves the same survey', () => {
  const { key: _, ...expected } = SURVEY
  expect(bodyOf(draftOf(SURVEY, 'Europe/Paris'), 'Europe/Paris')).toEqual({ body: expected })
})

test('a form without a valid time names the field', () => {
  const draft = { ...draftOf(SURVEY, 'UTC'), ends_at: 'soon' }
  expect(bodyOf(draft, 'UTC')).toEqual({ errors: { ends_at: 'Enter a date and a time, such as 2026-11-20 09:30.' } })
})

test('a new form has one question', () => {
  expect(draftOf(undefined, 'UTC').questions.map(({ key, kind }) => [key, kind])).toEqual([['q1', 'scale']])
})
