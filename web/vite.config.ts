/**
 * Builds the dashboard as a single page with hashed names under `assets/` and nothing inline, so that it
 * runs under `default-src 'self'`.
 */
import { readFileSync } from 'node:fs'
import { svelte } from '@sveltejs/vite-plugin-svelte'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'
import { pages } from './src/pages.ts'

/** The paths of the pages besides `/`, which the server answers with the app. */
function pagePaths(): Plugin {
  return {
    name: 'page-paths',
    apply: 'build',
    buildStart() {
      const paths = Object.keys(pages).filter((page) => page !== 'live')
      this.emitFile({ type: 'asset', fileName: 'pages.json', source: JSON.stringify(paths) })
    },
  }
}

/** The server behind `npm run dev`: a real server, or the mock. */
const SERVER = process.env.PLAYMETER_URL ?? 'http://127.0.0.1:4173'

/**
 * The stored theme must apply before the first paint. A module runs too late for that and the security
 * policy forbids inline scripts, so this is a classic script in the head.
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

/** Licences of bundled dependencies, which must be distributed with them. */
const LICENSES = [
  'svelte/LICENSE.md',
  'uplot/LICENSE',
  '@fontsource-variable/inter/LICENSE',
  '@codemirror/autocomplete/LICENSE',
  '@codemirror/commands/LICENSE',
  '@codemirror/lang-sql/LICENSE',
  '@codemirror/language/LICENSE',
  '@codemirror/state/LICENSE',
  '@codemirror/streamparser/LICENSE',
  '@codemirror/view/LICENSE',
  '@internationalized/date/LICENSE',
  '@lezer/common/LICENSE',
  '@lezer/highlight/LICENSE',
  '@lezer/lr/LICENSE',
  '@marijn/find-cluster-break/LICENSE',
  '@swc/helpers/LICENSE',
  'crelt/LICENSE',
  'style-mod/LICENSE',
  'w3c-keyname/LICENSE',
]

function licenses(): Plugin {
  return {
    name: 'licenses',
    apply: 'build',
    buildStart() {
      const texts = LICENSES.map((path) => `${path}\n\n${readFileSync(`node_modules/${path}`, 'utf8')}`)
      this.emitFile({ type: 'asset', fileName: 'licenses.txt', source: texts.join('\n\n') })
    },
  }
}

export default defineConfig({
  plugins: [svelte(), themeBeforePaint(), pagePaths(), licenses()],
  build: {
    // The oldest browsers that support `light-dark()`, which the colours use.
    target: ['chrome123', 'firefox120', 'safari17.5'],
    // The server's security policy does not allow data: URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { '/v1': SERVER, '/sign-in': SERVER, '/openapi.json': SERVER, '/play': SERVER } },
  test: { include: ['src/**/*.test.ts'] },
})
