import { expect, test } from 'vitest'
import { metricOptions } from './metric-options'

const events = ['players', 'sessions', 'level_win_rate', 'purchase'].map((name) => ({ name, count: 1 }))

test('an event with the name of a metric is listed once', () => {
  const ids = metricOptions(['metric', 'rate', 'event'], events, 'views').map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids).toContain('purchase')
})

test('where only events can be chosen, every event is listed by its own name', () => {
  const names = metricOptions(['event'], events, 'plays').map(({ id, name }) => [id, name])
  expect(names).toEqual(['players', 'sessions', 'level_win_rate', 'purchase', 'plays'].map((name) => [name, name]))
})
