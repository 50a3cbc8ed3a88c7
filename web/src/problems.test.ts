import { expect, test } from 'vitest'
import { ProblemError } from './api'
import { errorsOf } from './problems'

test('an error is shown at its field, or at the field that contains it', () => {
  const problem = (field?: string) => new ProblemError(400, 'must not be empty', field)
  expect(errorsOf(problem('name'), ['name']).fields).toEqual({ name: 'Must not be empty.' })
  expect(errorsOf(problem('questions[1].text'), ['questions']).fields).toEqual({
    questions: 'questions[1].text: Must not be empty.',
  })
  expect(errorsOf(problem('named'), ['name']).fields).toEqual({})
  expect(errorsOf(problem(), ['name']).other).toBeInstanceOf(ProblemError)
})
