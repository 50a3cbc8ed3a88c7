/** A reporter for node:test that writes the outcome of every test as a line of JSON. */
export default async function* (events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    // A suite fails with its tests; it counts only if one of its hooks fails.
    if (data.details?.type === 'suite' && data.details.error?.failureType !== 'hookFailed') continue
    // A test that is to be done may fail.
    const isSkipped = data.skip !== undefined || data.todo !== undefined
    const outcome = isSkipped ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed'
    yield `${JSON.stringify({ file: data.file, name: data.name, outcome })}\n`
  }
}
