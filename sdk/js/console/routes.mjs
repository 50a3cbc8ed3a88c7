/** Completion of routes and parameters from the server's OpenAPI description. */
import { VERBS } from './verbs.mjs'

export class Routes {
  /** `{method, path, query}` of each operation. */
  #all

  constructor(description) {
    const paths = Object.entries(description?.paths ?? {})
    this.#all = paths.flatMap(([path, operations]) =>
      VERBS.filter((method) => operations[method]).map((method) => {
        const { summary = '', parameters = [] } = operations[method]
        const query = parameters.filter((one) => one.in === 'query').map(({ name }) => name)
        return { method, path, summary, query }
      }),
    )
  }

  get size() {
    return this.#all.length
  }

  /** Returns lines with the routes whose method, path or summary contain the text. */
  list(text = '') {
    const lines = this.#all.map(({ method, path, summary }) => `${method.padEnd(7)} ${path}  ${summary}`)
    return lines.filter((line) => line.toLowerCase().includes(text.toLowerCase()))
  }

  /** Returns the completions of a line and the part of it that they replace; undefined if it is not a request. */
  complete(line) {
    const [, verb, target] = /^\s*([a-z]+)[ \t]+(\/\S*)?$/i.exec(line) ?? []
    if (!verb || !VERBS.includes(verb.toLowerCase())) return undefined
    const routes = this.#all.filter(({ method }) => method === verb.toLowerCase())
    const [path, query] = (target ?? '').split(/\?(.*)/s)
    const found = query === undefined ? routes.map((route) => continued(route.path, path)) : parameters(routes, path, query)
    return [[...new Set(found.filter(Boolean))].sort(), target ?? '']
  }
}

/** Continues a typed path along a route up to the route's next parameter; undefined if they differ. */
function continued(route, typed) {
  const parts = route.split('/')
  const given = typed.split('/')
  if (given.length > parts.length) return undefined
  const last = given.length - 1
  const fits = given.every((text, i) => (i < last ? same(parts[i], text) : isParameter(parts[i]) || parts[i].startsWith(text)))
  if (!fits) return undefined
  if (isParameter(parts[last]) && given[last] === '') return typed === '' ? undefined : `${typed}${parts[last]}`
  const rest = isParameter(parts[last]) ? [given[last]] : [parts[last]]
  for (const part of parts.slice(last + 1)) {
    if (isParameter(part)) {
      rest.push('')
      break
    }
    rest.push(part)
  }
  return [...given.slice(0, last), ...rest].join('/')
}

function parameters(routes, path, query) {
  const typed = query.split('&')
  const current = typed.pop()
  const before = [path + '?' + typed.join('&')].map((text) => (typed.length ? `${text}&` : text))[0]
  const fitting = routes.filter((route) => {
    const parts = route.path.split('/')
    const given = path.split('/')
    return parts.length === given.length && parts.every((part, i) => same(part, given[i]))
  })
  const names = fitting.flatMap((route) => route.query)
  return names.filter((name) => name.startsWith(current)).map((name) => `${before}${name}=`)
}

function isParameter(part) {
  return part.startsWith('{')
}

function same(part, text) {
  return isParameter(part) ? text !== '' : part === text
}
