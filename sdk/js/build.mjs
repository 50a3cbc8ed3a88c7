/** Builds `dist/`: an ES module for bundlers and browsers, and a classic script with one global. */
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

for (const [i, lib] of bundles.entries()) {
  await build({
    configFile: false,
    logLevel: 'warn',
    build: {
      lib,
      target: 'es2022',
      emptyOutDir: i === 0,
      minify: true,
      rolldownOptions: { output: { minify: true, exports: lib.name ? 'default' : 'named' } },
    },
  })
}
