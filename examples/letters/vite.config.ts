/** One page with relative addresses, so that it runs wherever it is put; nothing inline, for `default-src 'self'`. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const SDK = (name: string) => fileURLToPath(new URL(`../../sdk/js/src/${name}.ts`, import.meta.url))

/** The typeface's licence asks to be handed on with it. */
function licences(): Plugin {
  return {
    name: 'licences',
    apply: 'build',
    buildStart() {
      const source = readFileSync('node_modules/@fontsource-variable/fredoka/LICENSE', 'utf8')
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: `Fredoka\n\n${source}` })
    },
  }
}

export default defineConfig({
  base: './',
  plugins: [licences()],
  resolve: { alias: { 'playmeter/sha256': SDK('sha256'), playmeter: SDK('index') } },
  build: {
    // The oldest browsers that know `light-dark()`, which the colours are written with.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { include: ['test/**/*.test.ts'] },
})
