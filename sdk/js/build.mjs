/** Builds `dist/`: an ES module for bundlers and browsers, and a classic script with one global. */
import { readFile, writeFile } from 'node:fs/promises'
import { minify } from 'terser'
import { build } from 'vite'

const bundles = [
  { entry: 'src/index.ts', formats: ['es'], fileName: () => 'playmeter.js' },
  { entry: 'src/sha256.ts', formats: ['es'], fileName: () => 'sha256.js' },
  {
    entry: 'src/sha256-script.ts',
    formats: ['iife'],
    name: 'playmeterSha256',
    fileName: () => 'sha256.iife.js',
  },
  { entry: 'src/script.ts', formats: ['iife'], name: 'Playmeter', fileName: () => 'playmeter.iife.js' },
]

/** Members that only the client's own modules use, and that are in no message, URL or stored value. */
const INTERNAL = /^(identity|skewMs|resubscribe|reset|schedule|secret|send|sendBeacons|sign|wake|write)$/

for (const [i, lib] of bundles.entries()) {
  await build({
    configFile: false,
    logLevel: 'warn',
    build: {
      lib,
      target: 'es2022',
      emptyOutDir: i === 0,
      minify: true,
      rolldownOptions: {
        optimization: { inlineConst: { mode: 'all', pass: 3 } },
        output: { minify: true, comments: { annotation: false, jsdoc: false }, exports: lib.name ? 'default' : 'named' },
      },
    },
  })
  const file = new URL(`dist/${lib.fileName()}`, import.meta.url)
  const { code } = await minify(await readFile(file, 'utf8'), {
    module: lib.formats[0] === 'es',
    ecma: 2020,
    compress: { passes: 3 },
    mangle: { properties: { builtins: true, regex: INTERNAL } },
    format: { comments: false },
  })
  await writeFile(file, code)
}
