// What the browser tests stand on: a real server on free ports, real traffic to its data ports, and Chromium.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import axe from 'axe-core';
import { chromium } from 'playwright-core';

/** The server under test: the one that `cargo xtask console` has built. */
export const program = process.env.TAVOLA_BINARY;
const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync) ?? 'chromium';
const WAIT_MS = 60_000;

/** Starts `tavola serve` in a temporary folder; ends with `stop`. `restart` starts it again, on the same ports. */
export async function startServer(...more) {
  assert(program, 'TAVOLA_BINARY names no server: `cargo xtask console` builds one and names it');
  const folder = mkdtempSync(join(tmpdir(), 'tavola-console-'));
  const ready = join(folder, 'ready');
  let [child, ended] = [null, null];
  const start = async (port) => {
    rmSync(ready, { force: true });
    const ports = ['blob', 'table', 'queue', 'console'].flatMap((name) => [`--${name}-port`, port(name)]);
    child = spawn(program, ['serve', '--data', join(folder, 'data'), '--ready-file', ready, ...ports, ...more], { stdio: ['ignore', 'ignore', 'inherit'] });
    ended = new Promise((done) => child.on('exit', done));
    await until(() => existsSync(ready), 'the server does not start');
    return JSON.parse(readFileSync(ready, 'utf8'));
  };
  const urls = await start(() => '0');
  return {
    ...urls,
    folder: join(folder, 'data'),
    stop: async () => { child.kill('SIGTERM'); await ended; rmSync(folder, { recursive: true, force: true }); },
    kill: async () => { child.kill('SIGKILL'); await ended; },
    restart: () => start((name) => new URL(urls[name]).port),
  };
}

export async function until(check, message) {
  const end = Date.now() + WAIT_MS;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(message);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A client of the data ports, by a shared access signature that the command line makes. */
export function storage(server) {
  const arguments_ = ['sas', '--data', server.folder, '--services', 'btq', '--resource-types', 'sco', '--permissions', 'rwdlacup', '--expiry', '1d'];
  const token = execFileSync(program, arguments_, { encoding: 'utf8' }).trim();
  const send = async (service, method, path, { headers = {}, body } = {}) => {
    const url = `${server[service]}/${path}${path.includes('?') ? '&' : '?'}${token}`;
    const table = service === 'table' ? { accept: 'application/json;odata=minimalmetadata', 'content-type': 'application/json' } : {};
    const answer = await fetch(url, { method, headers: { 'x-ms-version': '2021-12-02', ...table, ...headers }, body });
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  };
  const need = async (...request) => {
    const answer = await send(...request);
    if (answer.status >= 300) throw new Error(`${request[1]} ${request[2]}: ${answer.status} ${answer.text}`);
    return answer;
  };
  return {
    send,
    need,
    table: (name) => need('table', 'POST', 'Tables', { body: JSON.stringify({ TableName: name }) }),
    insert: (table, entity) => need('table', 'POST', table, { body: JSON.stringify(entity) }),
    query: (table, filter) => send('table', 'GET', `${table}()?$filter=${encodeURIComponent(filter)}`),
    point: (table, partition, row) => send('table', 'GET', `${table}(PartitionKey='${encodeURIComponent(partition)}',RowKey='${encodeURIComponent(row)}')`),
    queue: (name) => need('queue', 'PUT', name),
    put: (queue, text, query = '') => need('queue', 'POST', `${queue}/messages${query}`, { body: `<QueueMessage><MessageText>${text.replace(/&/g, '&amp;').replace(/</g, '&lt;')}</MessageText></QueueMessage>` }),
    container: (name) => need('blob', 'PUT', `${name}?restype=container`),
    blob: (path, body, type = 'text/plain') => need('blob', 'PUT', path, { body, headers: { 'x-ms-blob-type': 'BlockBlob', 'x-ms-blob-content-type': type } }),
    batch: async (table, entities) => {
      const inner = entities.map((entity) => `--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST ${server.table}/${table} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=nometadata\r\nPrefer: return-no-content\r\n\r\n${JSON.stringify(entity)}\r\n`).join('');
      const body = `--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n${inner}--c--\r\n--b--\r\n`;
      const answer = await need('table', 'POST', '$batch', { body, headers: { 'content-type': 'multipart/mixed; boundary=b' } });
      if (/HTTP\/1\.1 [45]/.test(answer.text)) throw new Error(answer.text);
    },
  };
}

/** Chromium, without the connections that it makes for itself. */
export function launch() {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--force-color-profile=srgb'];
  return chromium.launch({ executablePath: CHROMIUM, headless: true, args });
}

/** A page that fails the test on an error of a script or of the content security policy. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'], ...options });
  const page = await context.newPage();
  if (process.env.TAVOLA_CONSOLE_DIST) for (const [name, type] of [['app.js', 'text/javascript'], ['app.css', 'text/css']]) await page.route(`**/${name}`, (route) => route.fulfill({ path: join(process.env.TAVOLA_CONSOLE_DIST, name), contentType: type }));
  page.setDefaultTimeout(WAIT_MS);
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(`error: ${error.message}`));
  page.on('console', (message) => { if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) page.problems.push(message.text()); });
  page.on('dialog', (dialog) => { page.problems.push(`a dialog: ${dialog.message()}`); void dialog.dismiss(); });
  return page;
}

/** Waits until nothing moves or fades any more, but for what does so for ever. */
async function standsStill(page) {
  await page.evaluate(() => Promise.allSettled(document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime !== Infinity).map((one) => one.finished)));
}

/** Fails on whatever axe finds on a page when it stands still. */
export async function checkAccess(page, name) {
  await standsStill(page);
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const text = found.violations.map((one) => `${one.id}: ${one.help} ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
  assert.deepEqual(text, [], name);
}
