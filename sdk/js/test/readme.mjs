/** The examples of the README as one program, so that a test can run what a reader copies. */
import { readFileSync } from 'node:fs'

const README = new URL('../README.md', import.meta.url)

/** In order, without their imports; what they name is given to the program, which answers with its `game`. */
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

/** The same, ready to be called with the class, the function and a console. */
export const PARAMETERS = ['Playmeter', 'sha256', 'console']
