/** Assigns the errors of the server to the fields of a form. */
import { ProblemError } from './api'
import { errorMessage } from './client'

export interface FormErrors {
  /** The messages by field. */
  fields: Record<string, string>
  /** An error that belongs to no field of the form. */
  other: unknown
}

export const NO_ERRORS: FormErrors = { fields: {}, other: undefined }

/** An error of `questions[1].text` belongs to the field `questions` if the form has none for the whole path. */
export function errorsOf(caught: unknown, names: readonly string[]): FormErrors {
  const path = caught instanceof ProblemError ? (caught.field ?? '') : ''
  const field = names.find((name) => name === path) ?? names.find((name) => path.startsWith(`${name}.`) || path.startsWith(`${name}[`))
  if (!field) return { fields: {}, other: caught }
  const text = errorMessage(caught)
  return { fields: { [field]: field === path ? text : `${path}: ${text}` }, other: undefined }
}
