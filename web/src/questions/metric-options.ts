/** The options of a choice of what to measure. */
import type { Option } from '../components/Combobox.svelte'
import { BUILT_IN, builtInOf, formatTick, metricName, rateOf, RATES } from './metrics'

export type Kind = 'metric' | 'rate' | 'event'

const EVENTS = 'Events, last 30 days'

/**
 * Returns the options, each id once: an event that has the id of an offered metric or rate is not listed, because the
 * id means the metric. A value that is not listed is added.
 */
export function metricOptions(kinds: readonly Kind[], events: readonly { name: string; count: number }[], value: string): Option[] {
  const isOffered = (id: string) =>
    (kinds.includes('metric') && builtInOf(id) !== undefined) || (kinds.includes('rate') && rateOf(id) !== undefined)
  const all: Option[] = []
  if (kinds.includes('metric')) for (const { id, name, text } of BUILT_IN) all.push({ id, name, text, group: 'Metrics' })
  if (kinds.includes('rate')) for (const { id, name, text } of RATES) all.push({ id, name, text, group: 'Rates' })
  if (kinds.includes('event')) {
    for (const { name, count } of events) {
      if (!isOffered(name)) all.push({ id: name, name, group: EVENTS, detail: formatTick(count, 'number') })
    }
  }
  const isListed = value === '' || all.some(({ id }) => id === value)
  const name = kinds.includes('metric') ? metricName(value) : value
  return isListed ? all : [...all, { id: value, name, group: EVENTS }]
}
