/** A request as code, to run elsewhere. */
import type { Request } from './live-answer.svelte'

/** Returns curl commands. The key is a placeholder: the dashboard has no key. */
export function asCurl(origin: string, requests: readonly Request[]): string {
  const commands = requests.map(({ path, body }) =>
    [
      `curl -X POST ${origin}${path}`,
      `-H "Authorization: Bearer $PLAYMETER_KEY"`,
      `-H 'Content-Type: application/json'`,
      `-d '${JSON.stringify(body).replaceAll("'", `'\\''`)}'`,
    ].join(' \\\n  '),
  )
  return commands.join('\n\n')
}

/** Returns a script for Node.js or a server without dependencies. */
export function asJavaScript(origin: string, requests: readonly Request[]): string {
  const calls = requests.map(({ path, body }) => `await ask('${path}', ${JSON.stringify(body, null, 2)})`)
  return `const key = process.env.PLAYMETER_KEY

async function ask(path, body) {
  const response = await fetch(\`${origin}\${path}\`, {
    method: 'POST',
    headers: { Authorization: \`Bearer \${key}\`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error((await response.json()).detail)
  return response.json()
}

${calls.map((call) => `console.table((${call}).series)`).join('\n')}
`
}

/** Returns a script with Python's standard library. */
export function asPython(origin: string, requests: readonly Request[]): string {
  const calls = requests.map(({ path, body }) => `print(ask("${path}", ${python(body)}))`)
  return `import json, os, urllib.request

def ask(path, body):
    headers = {"Authorization": "Bearer " + os.environ["PLAYMETER_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request("${origin}" + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)

${calls.join('\n')}
`
}

function python(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(python).join(', ')}]`
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value !== 'object') return JSON.stringify(value)
  const fields = Object.entries(value).map(([name, field]) => `${JSON.stringify(name)}: ${python(field)}`)
  return `{${fields.join(', ')}}`
}
