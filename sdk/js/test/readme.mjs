/** Combines the examples of the README into one program, so that tests can run them. */
import { readFileSync } from 'node:fs'

const README = new URL('../README.md', import.meta.url)

/** Returns the examples in order, without imports. The names that they import are the parameters of the program. */
export function program({ url, key }) {
  const text = readFileSync(README, 'utf8')
  const blocks = [...text.matchAll(/^```js\n([\s\S]*?)^```/gm)].map(([, code]) => code)
  const code = blocks.map((block, i) => (i ? block : block.replace(/^const game/m, 'game')))
  const bodies = code.map((block) => (/^game = /m.test(block) ? block : `{\n${block}}`))
  return [`let game`, ...bodies]
    .join('\n')
    .replace(/^import .*$/gm, '')
    .replace(/url: 'https?:[^']*'/g, `url: ${JSON.stringify(url)}`)
    .replace(/'pm_pk_\.\.\.'/g, JSON.stringify(key))
}

/** The parameters of the program. */
export const PARAMETERS = ['Playmeter', 'sha256', 'console']
