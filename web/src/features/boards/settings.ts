/** A board's settings while they are edited, and what of them is sent. */
import { listOf } from '../../lists'
import { WINDOWS, type Board, type Checks, type Window } from './board'

export interface Settings {
  table: string
  title: string
  order: Board['order']
  keep: Board['keep']
  windows: Window[]
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

export type Wrongs = Record<string, string>

const KEY = /^[A-Za-z0-9._-]{1,100}$/

export function settingsOf(board: Board | undefined): Settings {
  const text = (value: number | null | undefined) => (value == null ? '' : String(value))
  return {
    table: board?.table ?? '',
    title: board?.title ?? '',
    order: board?.order ?? 'desc',
    keep: board?.keep ?? 'best',
    windows: board?.windows ?? (Object.keys(WINDOWS) as Window[]),
    min: text(board?.min),
    max: text(board?.max),
    decimals: text(board?.decimals ?? 0),
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

/** What is sent, or what is wrong. Only what differs from the board is sent; what it cannot take back stays. */
export function changesOf(
  settings: Settings,
  board: Board | undefined,
): { body: Record<string, unknown> } | { wrongs: Wrongs } {
  const wrongs: Wrongs = {}
  if (!KEY.test(settings.table)) wrongs.table = '1 to 100 letters, digits, dots, dashes and underscores.'
  if (settings.windows.length === 0) wrongs.windows = 'At least one window.'
  const body = bodyOf(settings, wrongs)
  if (board?.min != null && settings.min.trim() === '') wrongs.min = 'It can be changed, not taken away.'
  if (board?.max != null && settings.max.trim() === '') wrongs.max = 'It can be changed, not taken away.'
  if (Object.keys(wrongs).length > 0) return { wrongs }
  const before = board ? bodyOf(settingsOf(board), {}) : {}
  const differs = ([name, value]: [string, unknown]) => JSON.stringify(value) !== JSON.stringify(before[name])
  return { body: Object.fromEntries(Object.entries(body).filter(differs)) }
}

function bodyOf(settings: Settings, wrongs: Wrongs): Record<string, unknown> {
  const { title, order, keep, windows, mode, competitive } = settings
  const number = (name: 'min' | 'max' | 'decimals') => optional(settings[name], name, wrongs)
  const body: Record<string, unknown> = { title: title.trim(), order, keep, windows, mode, competitive }
  for (const name of ['min', 'max', 'decimals'] as const) {
    const value = number(name)
    if (value !== undefined) body[name] = value
  }
  body.checks = checksOf(settings, wrongs)
  body.filters = listOf(settings.filters)
  body.private = settings.private ? settings.code.trim() || true : false
  return body
}

function checksOf(settings: Settings, wrongs: Wrongs): Checks {
  const checks: Checks = {}
  for (const name of ['min_play_s', 'points_per_s_max'] as const) {
    const value = optional(settings[name], `checks.${name}`, wrongs)
    if (value !== undefined) checks[name] = value
  }
  if (settings.level.trim()) checks.level = settings.level.trim()
  return checks
}

function optional(text: string, name: string, wrongs: Wrongs): number | undefined {
  if (text.trim() === '') return undefined
  const value = Number(text)
  if (!Number.isFinite(value)) wrongs[name] = 'A number.'
  return value
}
