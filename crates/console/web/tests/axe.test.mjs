// Every page and every dialog under axe: light, dark and on a phone, and nothing wider than the screen.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { checkAccess, launch, openPage, startServer, storage, until } from './support.mjs';

const ACCOUNT = 'devstoreaccount1';
const FORMS = [['light', { width: 1280, height: 800 }, 'light'], ['dark', { width: 1280, height: 800 }, 'dark'], ['a phone', { width: 390, height: 844 }, 'light'], ['a dark phone', { width: 390, height: 844 }, 'dark']];
const PAGES = ['overview', `table/${ACCOUNT}/People`, `queue/${ACCOUNT}/jobs`, `container/${ACCOUNT}/files`, `heatmap/${ACCOUNT}/People`, 'advisor', 'live', 'access', 'cluster', 'nowhere'];
let server, browser;

before(async () => {
  server = await startServer();
  const client = storage(server);
  await client.table('People');
  for (const city of ['Turin', 'Rome']) await client.batch('People', Array.from({ length: 60 }, (_, index) => ({ PartitionKey: city, RowKey: `p-${index}`, Email: `${city}-${index}`, ...(index % 2 ? { Age: index } : { Age: 'unknown' }) })));
  for (let index = 0; index < 20; index++) await client.query('People', `Email eq 'Rome-${index}'`);
  for (let index = 0; index < 20; index++) await client.point('People', 'Turin', `p-${index}`);
  await client.query('People', 'Email eq');
  await client.queue('jobs');
  await client.queue('jobs-poison');
  for (let index = 0; index < 3; index++) await client.put('jobs', `message ${index}`);
  await client.put('jobs', 'later', '?visibilitytimeout=3000');
  await client.put('jobs-poison', '{"error":"no such customer"}');
  await client.container('files');
  for (const name of ['a.txt', 'docs/b.txt']) await client.blob(`files/${name}`, 'text');
  browser = await launch();
});
after(async () => { await browser?.close(); await server?.stop(); });

/** Runs with a page of a form, on which nothing may go wrong. */
async function withForm([, viewport, colorScheme], act) {
  const page = await openPage(browser, { viewport, colorScheme });
  try {
    await act(page);
    assert.deepEqual(page.problems, []);
  } finally {
    await page.context().close();
  }
}
const visit = async (page, hash) => { await page.goto(`${server.console}#/${hash}`); await page.getByRole('heading', { level: 1 }).waitFor(); };
async function check(page, name) {
  await checkAccess(page, name);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  assert.ok(wide <= 0, `${name} is ${wide} pixels too wide`);
}
const click = (page, name) => page.getByRole('button', { name, exact: true }).filter({ visible: true }).first().click();

for (const form of FORMS) {
  const [look] = form;
  describe(look, () => {
    test(`every page can be used by everybody: ${look}`, () => withForm(form, async (page) => {
      for (const place of PAGES) {
        await visit(page, place);
        if (place.startsWith('table')) await page.locator('.grid tbody tr:not(.placeholder)').nth(3).click();
        if (place.startsWith('queue')) await page.getByRole('option').first().click();
        if (place.startsWith('container')) await click(page, 'a.txt');
        if (place.startsWith('heatmap')) {
          await page.locator('.hm canvas').focus();
          for (const key of ['ArrowRight', 'ArrowDown']) await page.keyboard.press(key);
          await page.locator('[data-test=tip]').waitFor();
        }
        if (place === 'advisor') await page.locator('.card .tried').first().waitFor();
        if (place === 'live') { await page.locator('tr[data-id]').first().click(); await page.getByText('Where the time went').waitFor(); }
        if (place === 'access') { await page.getByRole('combobox', { name: 'Table', exact: true }).fill('People'); await click(page, 'Sign'); await page.locator('[data-test=sas]').waitFor(); }
        await check(page, `${place}, ${look}`);
      }
      await visit(page, `table/${ACCOUNT}/People?filter=${encodeURIComponent('Email eq')}`);
      await page.getByRole('alert').first().waitFor();
      await check(page, `a filter that does not parse, ${look}`);
      await visit(page, `container/${ACCOUNT}/none`);
      await page.getByRole('alert').first().waitFor();
      await check(page, `a container that is not there, ${look}`);
      if (form[1].width < 800) {
        await click(page, 'Open navigation');
        await checkAccess(page, `navigation, ${look}`);
      }
    }));

    test(`every dialog can be used by everybody: ${look}`, () => withForm(form, async (page) => {
      const dialogs = [
        [`table/${ACCOUNT}/People`, 'Import', 'Import into People'], [`table/${ACCOUNT}/People`, 'Export', 'Export People'], [`table/${ACCOUNT}/People`, 'Drop table', 'Drop table'],
        [`queue/${ACCOUNT}/jobs`, 'Message', /./], [`queue/${ACCOUNT}/jobs`, 'Drop queue', 'Drop queue'], [`container/${ACCOUNT}/files`, 'Drop container', 'Drop container'],
        ['overview', 'New table', 'New table'], ['overview', 'New queue', 'New queue'], ['overview', 'New container', 'New container'], ['advisor', 'Create index', 'Index for People'],
      ];
      for (const [place, button, name] of dialogs) {
        await visit(page, place);
        await click(page, button);
        const dialog = page.getByRole('dialog', { name });
        await dialog.waitFor();
        await check(page, `${button}, ${look}`);
        // What is typed may be wrong.
        const box = dialog.getByRole('textbox').first();
        if (await box.count()) { await box.fill('-'); await check(page, `${button}, wrong, ${look}`); }
        await page.keyboard.press('Escape');
        await until(async () => (await page.getByRole('dialog').count()) === 0, `${button} does not close`);
      }
      await page.keyboard.press('Control+k');
      const palette = page.getByRole('dialog', { name: 'Go to' });
      await palette.getByRole('option').first().waitFor();
      await check(page, `palette, ${look}`);
      await page.keyboard.type('zzzz');
      await palette.getByText('Nothing by that name').waitFor();
      await check(page, `palette without a match, ${look}`);
      await page.keyboard.press('Escape');
      await visit(page, `table/${ACCOUNT}/People`);
      await click(page, 'Entity');
      await page.getByRole('complementary', { name: 'New entity' }).waitFor();
      await check(page, `new entity, ${look}`);
    }));

    test(`sign-in and the page of a cluster can be used by everybody: ${look}`, () => withForm(form, async (page) => {
      await page.route('**/api/session', (route) => route.fulfill({ json: { signedIn: false, accounts: [], hasOthers: true, csrf: '', version: '' } }));
      await page.goto(server.console);
      await page.getByRole('button', { name: 'Sign in' }).waitFor();
      await check(page, `sign-in, ${look}`);
      await click(page, 'Console token');
      await check(page, `sign-in by token, ${look}`);
      await page.unroute('**/api/session');
      await page.route('**/api/events', (route) => route.abort());
      await page.route('**/api/server', async (route) => {
        const answer = await route.fetch();
        const told = await answer.json();
        const member = (name, isThis) => ({ name, host: '10.20.1.21', isThis });
        const node = (place) => ({ address: `10.20.0.1${place}:9042`, location: `milan / rack${place}`, isUp: place !== 3, settings: ['commitlog_sync batch', 'paxos_variant v2'] });
        await route.fulfill({ response: answer, json: { ...told, health: { ...told.health, engine: 'cql', location: `tavola at ${[1, 2, 3].map((place) => node(place).address)}` }, members: [member('tavola-1', true), member('tavola-2', false), member('tavola-3', false)], nodes: [1, 2, 3].map(node) } });
      });
      await page.route('**/api/owners?**', (route) => route.fulfill({ json: { tables: { 'tavola-1': 4, 'tavola-2': 5 }, queues: { 'tavola-3': 1 }, isWhole: false } }));
      await page.route('**/api/owner?**', (route) => route.fulfill({ json: { owner: { name: 'tavola-2', isThis: false, isSuspended: true } } }));
      // The page that a cluster alone has is reached by its keys, and by name.
      await page.goto(server.console);
      await page.reload();
      await page.getByRole('link', { name: 'Cluster', includeHidden: true }).waitFor({ state: 'attached' });
      await page.locator('body').press('g');
      await page.locator('body').press('c');
      await page.getByRole('heading', { name: 'Cluster', level: 1 }).waitFor();
      await visit(page, 'overview');
      await page.keyboard.press('Control+k');
      await page.getByRole('dialog', { name: 'Go to' }).getByRole('option', { name: /^Cluster/ }).click();
      await page.getByRole('heading', { name: 'Cluster', level: 1 }).waitFor();
      await page.getByLabel('Table', { exact: true }).fill('People');
      await click(page, 'Find owner');
      await page.locator('[data-test=owner] b').waitFor();
      await page.getByText('1 not connected').waitFor();
      await check(page, `cluster, ${look}`);
    }));
  });
}
