import { expect, test } from 'vitest'
import { curlOf, fieldsOf, filterGroups, groupsOf, typeOf, type OpenApiDocument } from './openapi'

const DOCUMENT: OpenApiDocument = {
  openapi: '3.1.0',
  info: { title: 'Playmeter', version: '1' },
  paths: {
    '/healthz': { get: { tags: ['operations'], summary: 'The process answers.', security: [{}] } },
    '/v1/vars/{name}': {
      get: {
        tags: ['variables'],
        summary: 'One value.',
        parameters: [
          { name: 'name', in: 'path', required: true, schema: { type: 'string' }, example: 'top speed' },
          { name: 'player', in: 'query', schema: { type: 'string' }, example: 'bo' },
          { name: 'country', in: 'query', schema: { type: 'string' } },
        ],
        security: [{ public_key: [] }, { secret_key: [] }],
      },
      put: {
        tags: ['variables'],
        summary: 'Writes one.',
        security: [{ secret_key: [] }],
        requestBody: {
          content: {
            'application/json': { schema: { $ref: '#/components/schemas/Put' }, example: { value: "it's" } },
          },
        },
      },
    },
  },
  components: {
    schemas: {
      Put: {
        type: 'object',
        required: ['value'],
        properties: {
          value: { description: 'Any JSON.' },
          conditions: { type: 'array', items: { $ref: '#/components/schemas/Condition' } },
        },
      },
      Condition: {
        type: 'object',
        description: 'Who.',
        properties: { share: { type: ['number', 'null'] }, again: { $ref: '#/components/schemas/Condition' } },
      },
    },
  },
}

const groups = groupsOf(DOCUMENT)
const [get, put] = groups[0]!.operations

test('operations are grouped by tag in the order of the page', () => {
  const summary = groups.map(({ tag, operations }) => `${tag}: ${operations.map(({ id }) => id).join(', ')}`)
  expect(summary).toEqual(['variables: get-v1-vars-name, put-v1-vars-name', 'operations: get-healthz'])
  expect(get?.access).toBe('public key or secret key')
})

test('the curl command contains the public key and the example values', () => {
  expect(curlOf(get!, 'http://here', 'pm_pk_x')).toBe(
    `curl 'http://here/v1/vars/top%20speed?player=bo' \\\n  -H "Authorization: Bearer pm_pk_x"`,
  )
  expect(curlOf(get!, 'http://here', undefined)).toContain('$PLAYMETER_PUBLIC_KEY')
})

test('the curl command never contains a secret key and quotes the body for a shell', () => {
  const command = curlOf(put!, 'http://here', 'pm_pk_x')
  expect(command).toContain('Bearer $PLAYMETER_SECRET_KEY')
  expect(command).toContain(`-d '{"value":"it'\\''s"}'`)
  expect(curlOf(groups[1]!.operations[0]!, 'http://here', 'pm_pk_x')).toBe(`curl 'http://here/healthz'`)
})

test('fields include nested fields up to a maximum depth', () => {
  const fields = fieldsOf(DOCUMENT, { $ref: '#/components/schemas/Put' })
  expect(fields.slice(0, 4).map(({ name, depth, type }) => `${depth} ${name} ${type}`)).toEqual([
    '0 value any JSON',
    '0 conditions array of object',
    '1 share number',
    '1 again object',
  ])
  expect(fields.length).toBeLessThan(12)
  expect(fields[0]?.required).toBe(true)
})

test('types have readable names', () => {
  const type = (schema: object) => typeOf(DOCUMENT, schema)
  expect(type({ type: 'array', items: { type: 'string' } })).toBe('array of string')
  expect(type({ type: 'object', additionalProperties: { type: 'integer' } })).toBe('map of integer')
  expect(type({ oneOf: [{ type: 'null' }, { enum: ['a', 'b'] }] })).toBe('a or b')
  expect(type({})).toBe('any JSON')
})

test('the filter matches operations that contain every word', () => {
  const found = (query: string) => filterGroups(groups, query).flatMap(({ operations }) => operations.map((it) => it.id))
  expect(found('put vars')).toEqual(['put-v1-vars-name'])
  expect(found('country')).toEqual(['get-v1-vars-name'])
  expect(found('conditions')).toEqual(['put-v1-vars-name'])
  expect(found('')).toHaveLength(3)
  expect(found('nothing')).toEqual([])
})
