/** The description of the API (OpenAPI 3.1) as a page shows it. */

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

interface Described {
  tags?: string[]
  summary?: string
  description?: string
  parameters?: Parameter[]
  requestBody?: { content?: Record<string, Content> }
  responses?: Record<string, { description?: string; content?: Record<string, Content> }>
  security?: Record<string, string[]>[]
}

export interface Document {
  openapi: string
  info: { title: string; version: string; description?: string }
  paths: Record<string, Record<string, Described>>
  components?: { schemas?: Record<string, Schema> }
}

export interface Field {
  name: string
  /** How far inside of others it stands. */
  depth: number
  type: string
  required: boolean
  text: string
}

export interface Operation {
  /** Names it on the page: `put-v1-vars-name`. */
  id: string
  method: string
  path: string
  tag: string
  summary: string
  description: string
  /** Who may, in words. */
  who: string
  parameters: (Field & { where: string })[]
  body: Field[]
  answers: { status: string; text: string; fields: Field[] }[]
  /** For the command that shows it. */
  asked: { query: [string, string][]; path: string; body: unknown; credential: Credential }
}

export type Credential = 'public' | 'secret' | 'person' | 'none'

export interface Group {
  tag: string
  operations: Operation[]
}

/** What a game needs first; tags that are not named here come before the last ones. */
const FIRST = ['events', 'variables', 'boards', 'levels', 'achievements', 'feed', 'surveys', 'players', 'live', 'analytics']
const LAST = ['privacy', 'people', 'operations']
const METHODS = ['get', 'post', 'put', 'patch', 'delete']
const DEPTH_MAX = 3
const JSON_TYPE = 'application/json'

/** All operations by their tag, the most needed first. */
export function groupsOf(document: Document): Group[] {
  const groups = new Map<string, Operation[]>()
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const method of METHODS) {
      const described = methods[method]
      if (!described) continue
      const operation = operationOf(document, method, path, described)
      groups.set(operation.tag, [...(groups.get(operation.tag) ?? []), operation])
    }
  }
  const all = [...groups].map(([tag, operations]) => ({ tag, operations }))
  return all.sort((a, b) => placeOf(a.tag) - placeOf(b.tag))
}

function placeOf(tag: string): number {
  const [first, last] = [FIRST.indexOf(tag), LAST.indexOf(tag)]
  if (first >= 0) return first
  return FIRST.length + 1 + last
}

/** Those in which every word that is asked for occurs somewhere. */
export function filtered(groups: Group[], asked: string): Group[] {
  const words = asked.toLowerCase().split(/\s+/).filter(Boolean)
  const has = (operation: Operation) => words.every((word) => textOf(operation).includes(word))
  return groups
    .map(({ tag, operations }) => ({ tag, operations: operations.filter(has) }))
    .filter(({ operations }) => operations.length > 0)
}

function textOf({ method, path, tag, summary, parameters, body }: Operation): string {
  const fields = [...parameters, ...body].map(({ name }) => name)
  return [method, path, tag, summary, ...fields].join(' ').toLowerCase()
}

function operationOf(document: Document, method: string, path: string, described: Described): Operation {
  const content = described.requestBody?.content?.[JSON_TYPE]
  const credential = credentialOf(described.security)
  const parameters = described.parameters ?? []
  return {
    id: `${method}${path}`.replace(/[^A-Za-z0-9]+/g, '-').replace(/-$/, ''),
    method: method.toUpperCase(),
    path,
    tag: described.tags?.[0] ?? 'other',
    summary: described.summary ?? '',
    description: described.description ?? '',
    who: whoMay(described.security),
    parameters: parameters.map((parameter) => ({
      name: parameter.name,
      where: parameter.in,
      depth: 0,
      type: typeOf(document, parameter.schema ?? {}),
      required: parameter.required ?? false,
      text: parameter.description ?? '',
    })),
    body: fieldsOf(document, content?.schema),
    answers: Object.entries(described.responses ?? {}).map(([status, answer]) => ({
      status,
      text: answer.description ?? '',
      fields: status.startsWith('2') ? fieldsOf(document, answer.content?.[JSON_TYPE]?.schema) : [],
    })),
    asked: { ...exampleOf(path, parameters), body: content?.example, credential },
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

/** The fields of an object, those inside of others after them. */
export function fieldsOf(document: Document, schema: Schema | undefined, depth = 0): Field[] {
  const it = resolved(document, schema)
  if (!it || depth > DEPTH_MAX) return []
  const parts = (it.allOf ?? []).flatMap((part) => fieldsOf(document, part, depth))
  const own = Object.entries(it.properties ?? {}).flatMap(([name, inner]) => [
    {
      name,
      depth,
      type: typeOf(document, inner),
      required: it.required?.includes(name) ?? false,
      text: inner.description ?? resolved(document, inner)?.description ?? '',
    },
    ...fieldsOf(document, insideOf(document, inner), depth + 1),
  ])
  return [...parts, ...own]
}

/** What an array, a map or an optional thing has inside. */
function insideOf(document: Document, schema: Schema): Schema | undefined {
  const it = resolved(document, schema)
  const choice = [...(it?.oneOf ?? []), ...(it?.anyOf ?? [])].find(({ type }) => type !== 'null')
  if (choice) return insideOf(document, choice)
  const rest = typeof it?.additionalProperties === 'object' ? it.additionalProperties : undefined
  return it?.items ? insideOf(document, it.items) : rest ? insideOf(document, rest) : it
}

/** `text`, `list of numbers`, `a or b`: what may stand there. */
export function typeOf(document: Document, schema: Schema): string {
  const it = resolved(document, schema)
  if (!it) return 'any JSON'
  if (it.enum) return it.enum.map(String).join(' or ')
  const choices = [...(it.oneOf ?? []), ...(it.anyOf ?? [])].filter(({ type }) => type !== 'null')
  if (choices.length > 0) return [...new Set(choices.map((choice) => typeOf(document, choice)))].join(' or ')
  const types = [it.type ?? []].flat().filter((type) => type !== 'null')
  if (types.length === 0) return it.properties || it.allOf ? 'object' : 'any JSON'
  return types.map((type) => plainType(document, type, it)).join(' or ')
}

function plainType(document: Document, type: string, schema: Schema): string {
  if (type === 'array') return `list of ${schema.items ? typeOf(document, schema.items) : 'any JSON'}`
  const map = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined
  if (type === 'object' && map) return `map of ${typeOf(document, map)}`
  return { string: 'text', integer: 'whole number', boolean: 'true or false' }[type] ?? type
}

function resolved(document: Document, schema: Schema | undefined): Schema | undefined {
  const name = schema?.$ref?.split('/').at(-1)
  return name ? document.components?.schemas?.[name] : schema
}

function credentialOf(security: Described['security']): Credential {
  const names = (security ?? []).flatMap(Object.keys)
  if (names.includes('public_key')) return 'public'
  if ((security ?? []).some((one) => Object.keys(one).length === 0)) return 'none'
  if (names.includes('secret_key')) return 'secret'
  return names.includes('sign_in') ? 'person' : 'none'
}

function whoMay(security: Described['security']): string {
  const names = (security ?? []).flatMap(Object.keys)
  const may = [
    (security ?? []).some((one) => Object.keys(one).length === 0) && 'anybody',
    names.includes('public_key') && 'the public key',
    names.includes('secret_key') && 'a secret key',
    names.includes('sign_in') && 'a signed-in person',
  ].filter((it) => it !== false)
  return may.length > 0 ? may.join(' or ') : 'anybody'
}

/** The operation as a command for a shell. The public key stands in it once it is known; a secret one never does. */
export function curlOf({ method, asked }: Operation, origin: string, publicKey: string | undefined): string {
  const query = new URLSearchParams(asked.query).toString()
  const keys = { public: publicKey ?? '$PLAYMETER_PUBLIC_KEY', secret: '$PLAYMETER_SECRET_KEY' }
  const key = asked.credential === 'public' || asked.credential === 'secret' ? keys[asked.credential] : undefined
  const parts = [
    `curl ${method === 'GET' ? '' : `-X ${method} `}${quoted(origin + asked.path + (query && `?${query}`))}`,
    key && `-H "Authorization: Bearer ${key}"`,
    asked.credential === 'person' && `-H "Cookie: playmeter=$PLAYMETER_SESSION"`,
    asked.body !== undefined && `-H 'Content-Type: application/json'`,
    asked.body !== undefined && `-d ${quoted(JSON.stringify(asked.body))}`,
  ]
  return parts.filter(Boolean).join(' \\\n  ')
}

/** For a shell: what is inside single quotes is taken as it is. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
