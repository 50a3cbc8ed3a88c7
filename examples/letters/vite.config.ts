/** Builds a page with relative URLs, so that it runs under any path, and nothing inline, for `default-src 'self'`. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const SDK = (name: string) => fileURLToPath(new URL(`../../sdk/js/src/${name}.ts`, import.meta.url))

/** The licence of the font must be distributed with it. */
function licenses(): Plugin {
  return {
    name: 'licenses',
    apply: 'build',
    buildStart() {
      const source = readFileSync('node_modules/@fontsource-variable/fredoka/LICENSE', 'utf8')
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: `Fredoka\n\n${source}` })
    },
  }
}

export default defineConfig({
  base: './',
  plugins: [licenses()],
  resolve: { alias: { 'playmeter/sha256': SDK('sha256'), playmeter: SDK('index') } },
  build: {
    // The oldest browsers that support `light-dark()`, which the colours use.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { include: ['test/**/*.test.ts'] },
})
