/** Lines such as `post /v1/events {event: 'jump'}`, and the names that code sees. */
import { Script } from 'node:vm'

const METHODS = ['get', 'head', 'post', 'put', 'patch', 'delete', 'options']
export const VERBS = METHODS

const LINE = new RegExp(`^\\s*(${METHODS.join('|')})[ \\t]+(/\\S*)([\\s\\S]*)$`, 'i')

/** Returns the JavaScript of a line that begins with a verb and a path, which may end with one line more; undefined for other code. */
export function translate(code, call = 'await $request(') {
  const [, verb, path, rest] = LINE.exec(code) ?? []
  if (!verb) return undefined
  const body = rest.trim().replace(/;$/, '')
  const args = [verb.toUpperCase(), path.replace(/;$/, '')].map((text) => JSON.stringify(text))
  return `${call}${[...args, ...(body ? [`(${body}\n)`] : [])].join(', ')})`
}

/** Returns true if code can be compiled as it is. */
export function isComplete(code) {
  try {
    return !!new Script(`async () => {${code}}`)
  } catch {
    return false
  }
}

/** Defines the names in the context of a prompt or a script. */
export function define(context, session) {
  const request = (method, path, body, extra) => session.request(method, path, body, extra)
  const verb = (method) => (path, body, extra) => request(method.toUpperCase(), path, body, extra)
  const verbs = METHODS.map((method) => [method === 'delete' ? 'del' : method, verb(method)])
  Object.assign(context, Object.fromEntries(verbs), { $request: request })
  Object.defineProperties(context, {
    $_: { get: () => session.last, configurable: true, enumerable: true },
    headers: property(session, 'headers'),
    cookies: property(session, 'cookies'),
  })
}

function property(session, name) {
  return {
    get: () => session[name],
    set(value) {
      if (value === null || typeof value !== 'object') throw new TypeError(`${name} must be an object`)
      session[name] = value
    },
    enumerable: true,
  }
}
