// Builds the pages into dist/, which is committed and embedded by `src/assets.rs`. `cargo xtask console` builds them
// again and compares.
import { build } from 'esbuild';
import { copyFile, mkdir } from 'node:fs/promises';

await mkdir('dist', { recursive: true });
await build({
  entryPoints: { app: 'src/main.tsx' },
  outdir: 'dist',
  bundle: true,
  minify: true,
  target: ['es2022'],
  format: 'iife',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  legalComments: 'eof',
  charset: 'utf8',
});
for (const name of ['index.html', 'icon.svg']) await copyFile(`src/${name}`, `dist/${name}`);
