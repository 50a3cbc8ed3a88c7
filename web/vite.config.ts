/**
 * How the dashboard is built: one page, hashed names under `assets/`, nothing inline, so that it
 * runs under `default-src 'self'`.
 */
import { readFileSync } from 'node:fs'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

/** What `npm run dev` talks to: a running server, or the mock. */
const SERVER = process.env.PLAYMETER_URL ?? 'http://127.0.0.1:4173'

/**
 * The remembered theme has to be in force before the first paint. A module runs too late for that
 * and the security policy forbids inline script, so this one script is plain and stands in the head.
 */
function themeBeforePaint(): Plugin {
  let reference = ''
  return {
    name: 'theme-before-paint',
    apply: 'build',
    buildStart() {
      const source = readFileSync('src/theme-before-paint.js', 'utf8')
      reference = this.emitFile({ type: 'asset', name: 'theme.js', source })
    },
    generateBundle: {
      order: 'post',
      handler(_options, bundle) {
        const page = bundle['index.html']
        if (page?.type !== 'asset') throw new Error('index.html is not in the bundle')
        const tag = `<script src="/${this.getFileName(reference)}"></script>`
        page.source = String(page.source).replace('<!-- theme -->', tag)
      },
    },
  }
}

/** What others wrote and the browser is given, whose licences ask to be handed on with it. */
const GIVEN_ON = ['svelte/LICENSE.md', 'uplot/LICENSE', '@fontsource-variable/inter/LICENSE']

function licences(): Plugin {
  return {
    name: 'licences',
    apply: 'build',
    buildStart() {
      const texts = GIVEN_ON.map((path) => `${path}\n\n${readFileSync(`node_modules/${path}`, 'utf8')}`)
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.join('\n\n') })
    },
  }
}

export default defineConfig({
  plugins: [svelte(), themeBeforePaint(), licences()],
  build: {
    // The oldest browsers that know `light-dark()`, which the colours are written with.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    // A data: URL would need a wider security policy than the server gives.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/v1': SERVER, '/sign-in': SERVER, '/openapi.json': SERVER, '/play': SERVER } },
  test: { include: ['src/**/*.test.ts'] },
})
