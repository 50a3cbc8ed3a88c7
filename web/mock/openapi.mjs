/** An OpenAPI document with a few routes, in the shape of the server's. */
const param = (name, where, example, description = '') => ({ name, in: where, example, description, required: where === 'path', schema: { type: 'string' } })
const json = (schema, example) => ({ content: { 'application/json': { schema, ...(example ? { example } : {}) } } })
const ok = (description) => ({ 200: { description } })
const PUBLIC = [{ public_key: [] }, { secret_key: [] }]
const SECRET = [{ secret_key: [] }]

export const OPENAPI = {
  openapi: '3.1.0',
  info: { title: 'Playmeter', version: '0.1.0', description: 'Realtime analytics and live-ops for games.' },
  paths: {
    '/v1/events': {
      post: {
        tags: ['events'],
        summary: 'Sends events.',
        requestBody: json({ $ref: '#/components/schemas/Event' }, { event: 'jump', player: 'bo', value: 3 }),
        responses: { 202: { description: 'The outcome of each event.' } },
        security: PUBLIC,
      },
    },
    '/v1/vars/{name}': {
      get: {
        tags: ['variables'],
        summary: 'Returns the value of a variable for a player.',
        parameters: [param('name', 'path', 'speed', 'The variable.'), param('player', 'query', 'bo', 'The player.')],
        responses: ok('`{name, value, version}`'),
        security: PUBLIC,
      },
      put: {
        tags: ['variables'],
        summary: 'Replaces a variable.',
        parameters: [param('name', 'path', 'speed', 'The variable.')],
        requestBody: json({ $ref: '#/components/schemas/PutVariable' }, { value: 1.5 }),
        responses: { ...ok('`{version, name}`'), 409: { description: 'The version has changed.' } },
        security: SECRET,
      },
    },
    '/healthz': { get: { tags: ['operations'], summary: 'Returns 200 while the process runs.', responses: ok('The process runs.'), security: [{}] } },
  },
  components: {
    schemas: {
      Event: {
        type: 'object',
        required: ['event'],
        properties: {
          event: { type: 'string', description: 'Name of the event.' },
          player: { type: 'string', description: 'Player id.' },
          value: { type: 'number', description: 'Numeric value.' },
        },
      },
      PutVariable: {
        type: 'object',
        required: ['value'],
        properties: {
          value: { description: 'Value if no condition matches.' },
          conditions: {
            type: 'array',
            description: 'First matching condition wins.',
            items: { type: 'object', properties: { country: { type: 'array', items: { type: 'string' } } } },
          },
        },
      },
    },
  },
}
