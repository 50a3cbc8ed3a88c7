/** The form of a leaderboard's settings: its values, validation and the request body. */
import { splitList } from '../../lists'
import { WINDOWS, type Board, type BoardWindow, type Checks } from './board'

export interface BoardFormValues {
  table: string
  title: string
  order: Board['order']
  keep: Board['keep']
  windows: BoardWindow[]
  min: string
  max: string
  decimals: string
  mode: Board['mode']
  competitive: boolean
  min_play_s: string
  points_per_s_max: string
  level: string
  filters: string
  private: boolean
  code: string
}

export type FieldErrors = Record<string, string>

const KEY = /^[A-Za-z0-9._-]{1,100}$/

export function formValues(board: Board | undefined): BoardFormValues {
  const text = (value: number | null | undefined) => (value == null ? '' : String(value))
  return {
    table: board?.table ?? '',
    title: board?.title ?? '',
    order: board?.order ?? 'desc',
    keep: board?.keep ?? 'best',
    windows: board?.windows ?? (Object.keys(WINDOWS) as BoardWindow[]),
    min: text(board?.min),
    max: text(board?.max),
    decimals: text(board?.decimals ?? 3),
    mode: board?.mode ?? 'session',
    competitive: board?.competitive ?? false,
    min_play_s: text(board?.checks.min_play_s),
    points_per_s_max: text(board?.checks.points_per_s_max),
    level: board?.checks.level ?? '',
    filters: (board?.filters ?? []).join(', '),
    private: board?.private ?? false,
    code: board?.code ?? '',
  }
}

/** Returns the changed fields, or the errors of invalid ones. A minimum or maximum can be changed but not removed. */
export function changedFields(
  values: BoardFormValues,
  board: Board | undefined,
): { body: Record<string, unknown> } | { errors: FieldErrors } {
  const errors: FieldErrors = {}
  if (!KEY.test(values.table)) errors.table = 'Use 1 to 100 letters, digits, dots, hyphens or underscores.'
  if (values.windows.length === 0) errors.windows = 'Select at least one window.'
  const body = bodyOf(values, errors)
  if (board?.min != null && values.min.trim() === '') errors.min = 'This limit can be changed but not removed.'
  if (board?.max != null && values.max.trim() === '') errors.max = 'This limit can be changed but not removed.'
  if (Object.keys(errors).length > 0) return { errors }
  const before = board ? bodyOf(formValues(board), {}) : {}
  const isChanged = ([name, value]: [string, unknown]) => JSON.stringify(value) !== JSON.stringify(before[name])
  return { body: Object.fromEntries(Object.entries(body).filter(isChanged)) }
}

function bodyOf(values: BoardFormValues, errors: FieldErrors): Record<string, unknown> {
  const { title, order, keep, windows, mode, competitive } = values
  const number = (name: 'min' | 'max' | 'decimals') => optional(values[name], name, errors)
  const body: Record<string, unknown> = { title: title.trim(), order, keep, windows, mode, competitive }
  for (const name of ['min', 'max', 'decimals'] as const) {
    const value = number(name)
    if (value !== undefined) body[name] = value
  }
  body.checks = checksOf(values, errors)
  body.filters = splitList(values.filters)
  body.private = values.private ? values.code.trim() || true : false
  return body
}

function checksOf(values: BoardFormValues, errors: FieldErrors): Checks {
  const checks: Checks = {}
  for (const name of ['min_play_s', 'points_per_s_max'] as const) {
    const value = optional(values[name], `checks.${name}`, errors)
    if (value !== undefined) checks[name] = value
  }
  if (values.level.trim()) checks.level = values.level.trim()
  return checks
}

function optional(text: string, name: string, errors: FieldErrors): number | undefined {
  if (text.trim() === '') return undefined
  const value = Number(text)
  if (!Number.isFinite(value)) errors[name] = 'Enter a number.'
  return value
}
