/** The prompt: Node's REPL with verbs, completion of routes and a history without keys. */
import { chmodSync } from 'node:fs'
import repl from 'node:repl'
import { format, formatBody } from './format.mjs'
import { checkedKey, serverUrl } from './options.mjs'
import { Routes } from './routes.mjs'
import { define, isComplete, translate, VERBS } from './verbs.mjs'

/** Runs the prompt until its end. */
export async function runPrompt(session, { history }) {
  const colors = process.stdout.hasColors?.() ?? false
  print(session.describe())
  const state = { routes: await loadRoutes(session) }
  print('verbs: get /v1/vars, post /v1/events {event: ...}; the last response: $_; .help lists the commands\n')
  const server = repl.start({ prompt: '> ', writer: (value) => format(value, colors), ignoreUndefined: true })
  define(server.context, session)
  session.onMessage(({ event = 'message', data }) => print(`${event} ${formatBody(data, colors)}`))
  readVerbs(server)
  completeRoutes(server, state)
  interrupt(server, session)
  addCommands(server, session, state)
  await keepHistory(server, history)
  await new Promise((done) => server.once('exit', done))
}

function print(line) {
  process.stdout.write(`${line}\n`)
}

/** Loads the description that completion needs, and says so: it is the only request that was not typed. */
async function loadRoutes(session) {
  try {
    const { status, body } = await session.request('GET', '/openapi.json')
    session.last = undefined
    if (status !== 200) throw new Error(`status ${status}`)
    const routes = new Routes(body)
    print(`GET /openapi.json: ${routes.size} routes for completion`)
    return routes
  } catch (error) {
    print(`GET /openapi.json: no completion of routes: ${error.message}`)
    return new Routes()
  }
}

function readVerbs(server) {
  const evaluate = server.eval
  server.eval = function (code, ...rest) {
    const request = translate(code)
    // Of an incomplete request the end is left open, so that the prompt waits for more lines.
    const script = request && !isComplete(request) ? request.slice(0, -'\n))'.length) : request
    return evaluate.call(this, script ? `${script}\n` : code, ...rest)
  }
}

function completeRoutes(server, state) {
  const complete = server.completer
  server.completer = function (line, done) {
    const found = state.routes.complete(line)
    if (found) return done(null, found)
    const verbs = VERBS.filter((verb) => line !== '' && verb.startsWith(line)).map((verb) => `${verb} `)
    if (!verbs.length) return complete.call(this, line, done)
    complete.call(this, line, (error, [others, part] = [[], line]) => {
      done(null, [[...verbs, ...(error ? [] : others.filter(Boolean))], part])
    })
  }
}

/** Ctrl+C ends running requests; without one it does what it does in Node. */
function interrupt(server, session) {
  let aborted = false
  // The prompt itself sees keys only after the request.
  process.stdin.on('keypress', (_, key) => {
    if (key?.ctrl && key.name === 'c' && session.abort()) aborted = true
  })
  const others = server.listeners('SIGINT')
  server.removeAllListeners('SIGINT')
  server.on('SIGINT', () => {
    if (!aborted) others.forEach((listener) => listener.call(server))
    aborted = false
  })
}

function addCommands(server, session, state) {
  const command = (name, help, run) =>
    server.defineCommand(name, {
      help,
      async action(text) {
        this.clearBufferedCommand()
        try {
          await run(text.trim())
        } catch (error) {
          print(error.message)
        }
        this.displayPrompt()
      },
    })
  command('server', 'Show the server and the key, or connect to another URL (without key and cookies)', async (text) => {
    if (text) {
      session.connect(serverUrl(text))
      state.routes = await loadRoutes(session)
    }
    print(session.describe())
  })
  command('key', 'Use another key; without one, no key', (text) => {
    session.useKey(checkedKey(text))
    print(session.describe())
  })
  command('routes', 'List the routes that contain a text', (text) => print(state.routes.list(text).join('\n') || 'none'))
  command('sent', 'Show the last request as it was sent, without secrets', () => {
    const { method, path, headers, body } = session.last?.request ?? {}
    if (!method) return print('nothing yet')
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`)
    print([`${method} ${session.url}${path}`, ...lines, ...(body ? ['', body] : [])].join('\n'))
  })
  command('verbose', 'Print each request and response with its headers, or stop doing so', () => {
    session.verbose = !session.verbose
    print(`verbose: ${session.verbose ? 'on' : 'off'}`)
  })
}

async function keepHistory(server, file) {
  server.on('history', (lines) => {
    const kept = lines.filter((line) => !/pm_sk_/.test(line))
    lines.splice(0, lines.length, ...kept)
  })
  if (!file) return
  await new Promise((done) => {
    server.setupHistory(file, (error) => {
      if (error) print(`no history: ${error.message}`)
      else chmodSync(file, 0o600)
      done()
    })
  })
}
