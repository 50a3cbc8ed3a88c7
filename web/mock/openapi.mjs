/** A small description of some routes, of the shape of the server's. */
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
        responses: { 202: { description: 'What became of each event.' } },
        security: PUBLIC,
      },
    },
    '/v1/vars/{name}': {
      get: {
        tags: ['variables'],
        summary: 'One value that somebody gets.',
        parameters: [param('name', 'path', 'speed', 'The variable.'), param('player', 'query', 'bo', 'Whose value.')],
        responses: ok('`{name, value, version}`'),
        security: PUBLIC,
      },
      put: {
        tags: ['variables'],
        summary: 'Writes one variable. What is not given is not kept.',
        parameters: [param('name', 'path', 'speed', 'The variable.')],
        requestBody: json({ $ref: '#/components/schemas/PutVariable' }, { value: 1.5 }),
        responses: { ...ok('`{version, name}`'), 409: { description: 'The version is another one.' } },
        security: SECRET,
      },
    },
    '/healthz': { get: { tags: ['operations'], summary: 'The process answers.', responses: ok('It does.'), security: [{}] } },
  },
  components: {
    schemas: {
      Event: {
        type: 'object',
        required: ['event'],
        properties: {
          event: { type: 'string', description: 'What happened.' },
          player: { type: 'string', description: 'To whom.' },
          value: { type: 'number', description: 'How much.' },
        },
      },
      PutVariable: {
        type: 'object',
        required: ['value'],
        properties: {
          value: { description: 'What everybody gets whom no condition matches.' },
          conditions: {
            type: 'array',
            description: 'The first one that matches decides.',
            items: { type: 'object', properties: { country: { type: 'array', items: { type: 'string' } } } },
          },
        },
      },
    },
  },
}
