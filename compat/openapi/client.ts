/** A client whose types openapi-typescript generated; the test compiles this file and runs it against a server. */
import createClient from 'openapi-fetch'
import type { paths } from './schema.js'

export async function run(baseUrl: string, key: string) {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } })
  const one = await client.POST('/v1/events', { body: { event: 'hit', player: 'bo', value: 2 } })
  const many = await client.POST('/v1/events', { body: [{ event: 'hit', ts: Date.now() }, { event: 'hit' }] })
  const sent_at = new Date().toISOString()
  const envelope = await client.POST('/v1/events', { body: { sent_at, events: [{ event: 'hit' }] } })
  const accepted = [one, many, envelope].map(({ data }) => data?.accepted)
  const query = await client.GET('/v1/query', { params: { query: { metric: 'hit', last: '24h', step: 'all' } } })
  const put = await client.PUT('/v1/boards/{table}', { params: { path: { table: 'race' } }, body: { title: 'Race' } })
  const wrong = await client.GET('/v1/boards/{table}/scores', {
    params: { path: { table: 'race' }, query: { page: 0 } },
  })
  const vars = await client.PUT('/v1/vars', { body: { vars: { speed: { value: 1.5 }, unused: null } } })
  // With `format` in the URL the answer is text.
  const series = typeof query.data === 'object' ? query.data.series : []
  return {
    accepted,
    total: series[0],
    board: put.data?.title,
    field: wrong.error?.field,
    status: wrong.error?.status,
    vars: vars.response.status,
  }
}
