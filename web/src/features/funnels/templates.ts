/** Funnels that most games need, with the names of events that the game sends. */
import { newPattern, type EventPattern } from '../../questions/event-pattern'

export interface Template {
  id: string
  name: string
  text: string
  steps: EventPattern[]
  window: string
}

/** Steps of the template of levels. */
const LEVELS_MAX = 10

const LEVEL_STARTS = ['level_start', 'level_started', 'start_level', 'level_begin']
const FIRST_SESSION = [
  ['$session_start', 'session_start', 'app_open'],
  ['tutorial_start', 'tutorial_begin', 'onboarding_start'],
  ['tutorial_done', 'tutorial_complete', 'tutorial_end', 'onboarding_done'],
  LEVEL_STARTS,
  ['level_win', 'level_complete', 'level_end', 'level_up'],
]
const PURCHASE = [
  ['shop_open', 'store_open', 'shop_view', 'view_item'],
  ['purchase_start', 'checkout', 'begin_checkout', 'add_to_cart'],
  ['purchase', 'in_app_purchase', 'purchase_done', 'order'],
]

/** The value of the property `level` in events that start a level, the lowest first. */
export function levelsInOrder(values: readonly string[]): string[] {
  const numbers = values.filter((value) => /^\d+$/.test(value))
  return numbers.length >= 2 ? numbers.toSorted((a, b) => Number(a) - Number(b)) : [...values]
}

/** The names of a game's events: a set, or a map from them. */
type EventNames = Pick<ReadonlySet<string>, 'has'>

/** Returns the event that starts a level. */
export function levelStart(events: EventNames): EventPattern | undefined {
  const name = LEVEL_STARTS.find((name) => events.has(name))
  if (name) return newPattern(name)
  return events.has('$level') ? { event: '$level', where: [[{ property: 'props.state', op: '=', values: ['start'] }]] } : undefined
}

/** Returns the templates that the game's events allow. `levels` are the values of `level`, most frequent first. */
export function templatesOf(events: EventNames, levels: readonly string[]): Template[] {
  const start = levelStart(events)
  const level = (value: string): EventPattern | undefined =>
    start && { event: start.event, where: [...start.where, [{ property: 'level', op: '=', values: [value] }]] }
  const found = (names: string[][]) =>
    names.flatMap((alternatives) => alternatives.find((name) => events.has(name)) ?? []).map(newPattern)
  const all: Template[] = [
    {
      id: 'levels',
      name: 'Level progression',
      text: 'The level at which players quit.',
      steps: levelsInOrder(levels).slice(0, LEVELS_MAX).flatMap((value) => level(value) ?? []),
      window: '30d',
    },
    { id: 'first-session', name: 'First session', text: 'From the start to the first level won, within an hour.', steps: found(FIRST_SESSION), window: '1h' },
    { id: 'purchase', name: 'Purchase', text: 'From the shop to the purchase, within a day.', steps: found(PURCHASE), window: '1d' },
  ]
  return all.filter(({ steps }) => steps.length >= 2)
}
