import { expect, test } from 'vitest'
import { stepsOf, type Receipt } from './receipt'

const receipt: Receipt = { receipt: 'r', kind: 'erasure', asked_at: '1', invisible_at: '2', gone_by: '9' }

test('an erasure is hidden at once and removed later', () => {
  const steps = (more: Partial<Receipt>) => stepsOf({ ...receipt, ...more }).map(({ isDone, at }) => `${isDone} ${at}`)
  expect(steps({})).toEqual(['true 1', 'true 2', 'false 9'])
  expect(steps({ done_at: '3' })).toEqual(['true 1', 'true 2', 'true 3'])
})
