/** Scripts: JavaScript with requests as at the prompt, from a file, from standard input or from an argument. */
import vm from 'node:vm'
import { formatBody } from './format.mjs'
import { define, isComplete, translate } from './verbs.mjs'

/** A script that ended with an error. Its message names the line. */
export class ScriptFailed extends Error {}

/** A response of 400 and above to a request that is a line of the script. */
class RequestFailed extends Error {}

/**
 * Runs a script. The body of each request that begins a line is printed; other results are not. Stops at the first error
 * and at the first such response of 400 and above.
 */
export async function runScript(session, { name, text }, { keepGoing }) {
  if (session.verbose) process.stderr.write(`# ${session.describe()}\n`)
  session.onMessage((message) => process.stdout.write(`${JSON.stringify(message)}\n`))
  process.once('SIGINT', () => session.abort() || process.exit(130))
  let failed = 0
  define(globalThis, session)
  globalThis.$line = async (line, method, path, body) => {
    const response = await session.request(method, path, body)
    // The messages of a stream were printed as they arrived.
    if (response.body !== undefined && !Array.isArray(response.messages))
      process.stdout.write(`${formatBody(response.body, false)}\n`)
    if (response.status >= 400) {
      const message = `${name}:${line}: ${method} ${path}: ${response.status}`
      if (!keepGoing) throw new RequestFailed(message)
      process.stderr.write(`playmeter-console: ${message}\n`)
      failed++
    }
    return response
  }
  try {
    const options = { filename: name, importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }
    await new vm.Script(program(text), options).runInThisContext()()
  } catch (error) {
    throw error instanceof RequestFailed ? new ScriptFailed(error.message) : described(error, name)
  }
  if (failed) throw new ScriptFailed(`${failed} requests failed`)
}

/** Adds the line of the script to an error. */
function described(error, name) {
  const at = String(error?.stack ?? '').split('\n').find((line) => line.includes(`${name}:`))
  const line = at?.slice(at.indexOf(`${name}:`) + name.length + 1).match(/^\d+/)?.[0]
  const where = line ? `${name}:${line}` : name
  const kind = error instanceof Error && error.name !== 'Error' ? `${error.name}: ` : ''
  return new ScriptFailed(`${where}: ${kind}${error?.message ?? error}`, { cause: error })
}

/** Returns the JavaScript of a script: an async function with the same lines. */
function program(text) {
  const lines = text.replace(/^#!.*/, '').split(/\r?\n/)
  const found = []
  for (let start = 0; start < lines.length; ) {
    const end = requestEnd(lines, start)
    const code = lines.slice(start, end).join('\n')
    const request = translate(code, `;await $line(${start + 1}, `)
    const script = request ? `${request};` : code
    // The lines stay those of the script, because errors name them.
    found.push(script, '\n'.repeat(end - start - script.split('\n').length + 1))
    start = end
  }
  return `(async () => {${found.join('')}\n})`
}

/** Returns the line after the statement that begins in this line: more than one for a request with a longer body. */
function requestEnd(lines, start) {
  if (!translate(lines[start])) return start + 1
  for (let end = start + 1; end <= lines.length; end++) {
    if (isComplete(translate(lines.slice(start, end).join('\n')))) return end
  }
  return start + 1
}
