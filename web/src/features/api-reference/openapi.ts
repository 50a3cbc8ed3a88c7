/** Prepares the OpenAPI 3.1 document for the API page. */

export interface Schema {
  $ref?: string
  type?: string | string[]
  format?: string
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  additionalProperties?: boolean | Schema
  enum?: unknown[]
  oneOf?: Schema[]
  anyOf?: Schema[]
  allOf?: Schema[]
  minimum?: number
  maximum?: number
}

interface Content {
  schema?: Schema
  example?: unknown
}

interface Parameter {
  name: string
  in: 'query' | 'path' | 'header'
  description?: string
  required?: boolean
  schema?: Schema
  example?: unknown
}

interface OpenApiOperation {
  tags?: string[]
  summary?: string
  description?: string
  parameters?: Parameter[]
  requestBody?: { content?: Record<string, Content> }
  responses?: Record<string, { $ref?: string; description?: string; content?: Record<string, Content> }>
  security?: Record<string, string[]>[]
}

export interface OpenApiDocument {
  openapi: string
  info: { title: string; version: string; description?: string }
  paths: Record<string, Record<string, OpenApiOperation>>
  components?: { schemas?: Record<string, Schema> }
}

export interface Field {
  name: string
  /** Nesting depth. */
  depth: number
  type: string
  required: boolean
  text: string
}

export interface Operation {
  /** Id on the page: `put-v1-vars-name`. */
  id: string
  method: string
  path: string
  tag: string
  summary: string
  description: string
  /** The accepted credentials, for display. */
  access: string
  parameters: (Field & { location: string })[]
  body: Field[]
  responses: { status: string; text: string; fields: Field[] }[]
  /** The example request. */
  example: { query: [string, string][]; path: string; body: unknown; credential: Credential }
}

export type Credential = 'public' | 'secret' | 'person' | 'none'

export interface Group {
  tag: string
  operations: Operation[]
}

/** Tags in the order of the page: first those that a game needs first, then tags not named here, then `LAST`. */
const FIRST = ['events', 'variables', 'boards', 'levels', 'achievements', 'feed', 'surveys', 'players', 'live', 'analytics']
const LAST = ['privacy', 'people', 'operations']
const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const DEPTH_MAX = 3
const JSON_TYPE = 'application/json'

/** Returns the operations grouped by tag, sorted by `tagOrder`. */
export function groupsOf(document: OpenApiDocument): Group[] {
  const groups = new Map<string, Operation[]>()
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const definition = methods[method]
      if (!definition) continue
      const operation = operationOf(document, method, path, definition)
      groups.set(operation.tag, [...(groups.get(operation.tag) ?? []), operation])
    }
  }
  const all = [...groups].map(([tag, operations]) => ({ tag, operations }))
  return all.sort((a, b) => tagOrder(a.tag) - tagOrder(b.tag))
}

function tagOrder(tag: string): number {
  const [first, last] = [FIRST.indexOf(tag), LAST.indexOf(tag)]
  if (first >= 0) return first
  return FIRST.length + 1 + last
}

/** Returns the operations that contain every word of the query in their method, path, tag, summary or fields. */
export function filterGroups(groups: Group[], query: string): Group[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean)
  const has = (operation: Operation) => words.every((word) => textOf(operation).includes(word))
  return groups
    .map(({ tag, operations }) => ({ tag, operations: operations.filter(has) }))
    .filter(({ operations }) => operations.length > 0)
}

function textOf({ method, path, tag, summary, parameters, body }: Operation): string {
  const fields = [...parameters, ...body].map(({ name }) => name)
  return [method, path, tag, summary, ...fields].join(' ').toLowerCase()
}

function operationOf(document: OpenApiDocument, method: string, path: string, definition: OpenApiOperation): Operation {
  const content = definition.requestBody?.content?.[JSON_TYPE]
  const credential = credentialOf(definition.security)
  const parameters = definition.parameters ?? []
  return {
    id: `${method}${path}`.replace(/[^A-Za-z0-9]+/g, '-').replace(/-$/, ''),
    method: method.toUpperCase(),
    path,
    tag: definition.tags?.[0] ?? 'other',
    summary: definition.summary ?? '',
    description: definition.description ?? '',
    access: describeAccess(definition.security),
    parameters: parameters.map((parameter) => ({
      name: parameter.name,
      location: parameter.in,
      depth: 0,
      type: typeOf(document, parameter.schema ?? {}),
      required: parameter.required ?? false,
      text: parameter.description ?? '',
    })),
    body: fieldsOf(document, content?.schema),
    // Responses by reference are the errors that most operations have; the description of the API explains them.
    responses: Object.entries(definition.responses ?? {})
      .filter(([, response]) => !response.$ref)
      .map(([status, response]) => ({
        status,
        text: response.description ?? '',
        fields: status.startsWith('2') ? fieldsOf(document, response.content?.[JSON_TYPE]?.schema) : [],
      })),
    example: { ...exampleOf(path, parameters), body: content?.example, credential },
  }
}

function exampleOf(path: string, parameters: Parameter[]): { path: string; query: [string, string][] } {
  const value = ({ example, name }: Parameter) => String(example ?? name.toUpperCase())
  const filled = parameters
    .filter((parameter) => parameter.in === 'path')
    .reduce((path, parameter) => path.replace(`{${parameter.name}}`, encodeURIComponent(value(parameter))), path)
  const query = parameters
    .filter((parameter) => parameter.in === 'query' && (parameter.required || parameter.example !== undefined))
    .map((parameter): [string, string] => [parameter.name, value(parameter)])
  return { path: filled, query }
}

/** Returns the fields of an object, each followed by its nested fields. */
export function fieldsOf(document: OpenApiDocument, schema: Schema | undefined, depth = 0): Field[] {
  const it = resolved(document, schema)
  if (!it || depth > DEPTH_MAX) return []
  // Of several forms of a body, the first is shown.
  const choice = [...(it.oneOf ?? []), ...(it.anyOf ?? [])].find(({ type }) => type !== 'null')
  if (choice && !it.properties) return fieldsOf(document, choice, depth)
  const parts = (it.allOf ?? []).flatMap((part) => fieldsOf(document, part, depth))
  const own = Object.entries(it.properties ?? {}).flatMap(([name, inner]) => [
    {
      name,
      depth,
      type: typeOf(document, inner),
      required: it.required?.includes(name) ?? false,
      text: inner.description ?? resolved(document, inner)?.description ?? '',
    },
    ...fieldsOf(document, innerSchema(document, inner), depth + 1),
  ])
  return [...parts, ...own]
}

/** Returns the schema inside an array, a map or an optional value. */
function innerSchema(document: OpenApiDocument, schema: Schema): Schema | undefined {
  const it = resolved(document, schema)
  const choice = [...(it?.oneOf ?? []), ...(it?.anyOf ?? [])].find(({ type }) => type !== 'null')
  if (choice) return innerSchema(document, choice)
  const rest = typeof it?.additionalProperties === 'object' ? it.additionalProperties : undefined
  return it?.items ? innerSchema(document, it.items) : rest ? innerSchema(document, rest) : it
}

/** Returns the name of a type: `string`, `array of number`, `a or b`. */
export function typeOf(document: OpenApiDocument, schema: Schema): string {
  const it = resolved(document, schema)
  if (!it) return 'any JSON'
  if (it.enum) return it.enum.map(String).join(' or ')
  const choices = [...(it.oneOf ?? []), ...(it.anyOf ?? [])].filter(({ type }) => type !== 'null')
  if (choices.length > 0) return [...new Set(choices.map((choice) => typeOf(document, choice)))].join(' or ')
  const types = [it.type ?? []].flat().filter((type) => type !== 'null')
  if (types.length === 0) return it.properties || it.allOf ? 'object' : 'any JSON'
  return types.map((type) => plainType(document, type, it)).join(' or ')
}

function plainType(document: OpenApiDocument, type: string, schema: Schema): string {
  if (type === 'array') return `array of ${schema.items ? typeOf(document, schema.items) : 'any JSON'}`
  const map = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
  if (type === 'object' && map) return `map of ${typeOf(document, map)}`
  return type
}

function resolved(document: OpenApiDocument, schema: Schema | undefined): Schema | undefined {
  const name = schema?.$ref?.split('/').at(-1)
  return name ? document.components?.schemas?.[name] : schema
}

function credentialOf(security: OpenApiOperation['security']): Credential {
  const names = (security ?? []).flatMap(Object.keys)
  if (names.includes('public_key')) return 'public'
  if ((security ?? []).some((one) => Object.keys(one).length === 0)) return 'none'
  if (names.includes('secret_key')) return 'secret'
  return names.includes('sign_in') ? 'person' : 'none'
}

function describeAccess(security: OpenApiOperation['security']): string {
  const names = (security ?? []).flatMap(Object.keys)
  const may = [
    (security ?? []).some((one) => Object.keys(one).length === 0) && 'no authentication',
    names.includes('public_key') && 'public key',
    names.includes('secret_key') && 'secret key',
    names.includes('sign_in') && 'signed-in user',
  ].filter((it) => it !== false)
  return may.length > 0 ? may.join(' or ') : 'no authentication'
}

/** Returns the operation as a curl command. It contains the public key if it is known, but never a secret key. */
export function curlOf({ method, example }: Operation, origin: string, publicKey: string | undefined): string {
  const query = new URLSearchParams(example.query).toString()
  const keys = { public: publicKey ?? '$PLAYMETER_PUBLIC_KEY', secret: '$PLAYMETER_SECRET_KEY' }
  const key = example.credential === 'public' || example.credential === 'secret' ? keys[example.credential] : undefined
  const parts = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(origin + example.path + (query && `?${query}`))}`,
    key && `-H "Authorization: Bearer ${key}"`,
    example.credential === 'person' && `-H "Cookie: playmeter=$PLAYMETER_SESSION"`,
    example.body !== undefined && `-H 'Content-Type: application/json'`,
    example.body !== undefined && `-d ${quoted(JSON.stringify(example.body))}`,
  ]
  return parts.filter(Boolean).join(' \\\n  ')
}

/** Quotes a text for a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
