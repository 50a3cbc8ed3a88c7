/** Arguments and environment. */
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

export const URL_DEFAULT = 'http://127.0.0.1:8080'
const TIMEOUT_S = 30

export const HELP = `playmeter-console: a JavaScript prompt on the HTTP API of a Playmeter server

Usage: playmeter-console [OPTIONS] [URL]
       playmeter-console [OPTIONS] [URL] --file SCRIPT    (- for standard input)
       playmeter-console [OPTIONS] [URL] --eval CODE

URL is that of the server, ${URL_DEFAULT} by default. Nothing else is ever connected to, and redirects are shown, not
followed.

  -k, --key-file FILE      file that contains the key to send as \`Authorization: Bearer KEY\`
  -H, --header 'N: VALUE'  header to send with every request; may be repeated
  -f, --file SCRIPT        run a script and exit
  -e, --eval CODE          run code and exit
      --keep-going         in a script, continue after a response of 400 and above
      --timeout SECONDS    time limit of each request, ${TIMEOUT_S} by default
  -v, --verbose            print each request and response with its headers to standard error
      --history FILE       history of the prompt, ~/.playmeter_console_history by default; '' for none
  -h, --help               print this help
      --version            print the version

Environment: PLAYMETER_URL, PLAYMETER_KEY. A key is not an argument, because other users could see it.

At the prompt and in scripts:
  get /v1/vars?player=bo                    verbs: get, head, post, put, patch, delete, options
  post /v1/events {event: 'jump'}           the rest of the line is JavaScript
  $_.body                                   the last response: status, headers, body, text, ms, request
  const r = await get('/v1/vars')           the verbs as functions; \`del\` for delete
  headers['X-Test'] = '1'                   sent with every request; \`cookies\` likewise
  .help                                     the commands of the prompt

Exit codes: 0 success, 1 a script failed or a response was 400 or above, 2 wrong usage, 3 no response from the server.
`

/** Wrong arguments. */
export class UsageError extends Error {}

/** Reads the options. The key comes from a file or from the environment. */
export function readOptions(args, env) {
  const { values, positionals } = parse(args)
  if (positionals.length > 1) throw new UsageError(`unexpected argument: ${positionals[1]}`)
  if (values.file !== undefined && values.eval !== undefined)
    throw new UsageError('--file and --eval exclude each other')
  const url = positionals[0] ?? env.PLAYMETER_URL
  return {
    help: values.help,
    version: values.version,
    url: serverUrl(url ?? URL_DEFAULT),
    urlSource: positionals[0] ? 'argument' : env.PLAYMETER_URL ? 'PLAYMETER_URL' : 'default',
    ...key(values['key-file'], env.PLAYMETER_KEY),
    headers: Object.fromEntries((values.header ?? []).map(header)),
    file: values.file,
    code: values.eval,
    keepGoing: values['keep-going'] ?? false,
    timeout_ms: seconds(values.timeout) * 1000,
    verbose: values.verbose ?? false,
    history: values.history ?? join(homedir(), '.playmeter_console_history'),
  }
}

function parse(args) {
  try {
    return parseArgs({
      args,
      allowPositionals: true,
      options: {
        'key-file': { type: 'string', short: 'k' },
        header: { type: 'string', short: 'H', multiple: true },
        file: { type: 'string', short: 'f' },
        eval: { type: 'string', short: 'e' },
        'keep-going': { type: 'boolean' },
        timeout: { type: 'string' },
        verbose: { type: 'boolean', short: 'v' },
        history: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean' },
      },
    })
  } catch (error) {
    throw new UsageError(`${error.message}; see --help`)
  }
}

/** Returns the URL of a server without a trailing slash. */
export function serverUrl(text) {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol))
    throw new UsageError(`the URL must begin with http:// or https://: ${text}`)
  if (url.username || url.password || url.search || url.hash)
    throw new UsageError('the URL must have no user, query or fragment')
  return url.href.replace(/\/+$/, '')
}

function key(file, fromEnv) {
  if (file === undefined) return { key: checkedKey(fromEnv), keySource: fromEnv ? 'PLAYMETER_KEY' : '' }
  try {
    return { key: checkedKey(readFileSync(file, 'utf8').trim()), keySource: file }
  } catch (error) {
    throw error instanceof UsageError ? error : new UsageError(`cannot read the key: ${error.message}`)
  }
}

export function checkedKey(text = '') {
  if (text && !/^pm_[ps]k_[\x21-\x7e]+$/.test(text))
    throw new UsageError('a key begins with pm_pk_ or pm_sk_ and has no spaces')
  return text
}

function header(text) {
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*([^\r\n]*)$/.exec(text) ?? []
  if (!name) throw new UsageError(`a header must have the form 'Name: value': ${text}`)
  return [name, value]
}

function seconds(text = String(TIMEOUT_S)) {
  const value = Number(text)
  if (!(value > 0 && value <= 86_400)) throw new UsageError('--timeout must be between 0 and 86400 seconds')
  return value
}
