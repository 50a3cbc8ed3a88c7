#!/usr/bin/env node
/** `playmeter-console`: a JavaScript prompt on the HTTP API of a Playmeter server. */
import { readFileSync } from 'node:fs'
import { UsageError, HELP, readOptions } from './options.mjs'
import { runPrompt } from './prompt.mjs'
import { NoResponse, Session } from './session.mjs'
import { runScript, ScriptFailed } from './script.mjs'

const EXIT = { failed: 1, usage: 2, unreachable: 3 }

try {
  const options = readOptions(process.argv.slice(2), process.env)
  if (options.help) process.stdout.write(HELP)
  else if (options.version) process.stdout.write(`${version()}\n`)
  else await run(options)
} catch (error) {
  process.stderr.write(`playmeter-console: ${error instanceof Error ? error.message : error}\n`)
  process.exitCode = exitCode(error)
}

async function run(options) {
  const session = new Session(options)
  const source = script(options)
  if (source === undefined) return runPrompt(session, options)
  await runScript(session, source, options)
}

/** Returns the script and its name, or undefined for the prompt. */
function script({ file, code }) {
  if (code !== undefined) return { name: '--eval', text: code }
  if (file === '-' || (file === undefined && !process.stdin.isTTY))
    return { name: 'standard input', text: readFileSync(0, 'utf8') }
  if (file === undefined) return undefined
  try {
    return { name: file, text: readFileSync(file, 'utf8') }
  } catch (error) {
    throw new UsageError(`cannot read the script: ${error.message}`)
  }
}

function exitCode(error) {
  const cause = error instanceof ScriptFailed ? (error.cause ?? error) : error
  if (cause instanceof UsageError) return EXIT.usage
  if (cause instanceof NoResponse) return EXIT.unreachable
  return EXIT.failed
}

function version() {
  return JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).version
}
