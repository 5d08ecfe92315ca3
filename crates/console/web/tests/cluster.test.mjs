// The cluster page, of servers that share a Cassandra: `cargo xtask cluster` starts it and tells how to use it.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { checkAccess, launch, openPage, startServer, storage, until } from './support.mjs';

const engine = JSON.parse(process.env.TAVOLA_CLUSTER_ARGUMENTS ?? '[]');
const skip = engine.length === 0 && 'TAVOLA_CLUSTER_ARGUMENTS names no cluster';

/** A port that nothing listens on. */
async function freePort() {
  const socket = createServer().listen(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address();
  socket.close();
  await once(socket, 'close');
  return port;
}

test('shows the nodes, and servers as they come and go', { skip }, async () => {
  const server = await startServer(...engine);
  const other = await startServer(...engine);
  const browser = await launch();
  try {
    const page = await openPage(browser);
    await page.goto(`${server.console}#/cluster`);
    const nodes = page.getByRole('region', { name: 'Nodes', exact: true });
    await nodes.getByText('all connected').waitFor();
    assert.match(await nodes.locator('tbody tr').first().innerText(), /127\.0\.0\.1.*datacenter1/s);
    assert.equal(await nodes.getByText('connected', { exact: true }).count(), 1);
    const members = page.getByRole('region', { name: 'Servers', exact: true }).locator('tbody tr');
    await until(async () => (await members.count()) === 2, 'the other server is not shown');
    assert.equal(await page.getByText('this one').count(), 1);
    assert.ok((await page.getByRole('region', { name: 'Store', exact: true }).locator('tbody tr').count()) > 0, 'no figures');
    await checkAccess(page, 'cluster');
    await other.stop();
    await until(async () => (await members.count()) === 1, 'a server that has stopped is still shown');
    assert.deepEqual(page.problems, []);
  } finally {
    await browser.close();
    await other.kill();
    await server.stop();
  }
});

test('tells who owns a partition, as every server does, and how many each owns', { skip }, async () => {
  const health = await freePort();
  const server = await startServer(...engine, '--health-port', String(health));
  const other = await startServer(...engine);
  const browser = await launch();
  try {
    const hostile = '<img src=x onerror=window.pwned=1>';
    const client = storage(server);
    await client.table('Owned');
    await client.queue('owned-tasks');
    const keys = ['', hostile, ...Array.from({ length: 14 }, (_, number) => `p${number}`)];
    for (const key of keys) await client.insert('Owned', { PartitionKey: key, RowKey: 'r' });
    const open = async (console, more = {}) => {
      const page = await openPage(browser, more);
      await page.goto(`${console}#/cluster`);
      const rows = page.getByRole('region', { name: 'Servers', exact: true }).locator('tbody tr');
      await until(async () => (await rows.count()) === 2, 'the other server is not shown');
      return { page, rows, panel: page.getByRole('region', { name: 'Owner', exact: true }) };
    };
    const here = await open(server.console);
    const there = await open(other.console, { viewport: { width: 390, height: 844 }, colorScheme: 'dark' });
    const answer = ({ panel }) => panel.locator('[data-test=owner]');
    /** Asks by the keyboard alone; gives the owner's name and whether it is the server that was asked. */
    const ask = async (view, key) => {
      await view.page.locator('#main').focus();
      await view.page.keyboard.press('/');
      for (const text of ['Owned', key]) {
        await view.page.keyboard.press('Control+a');
        await view.page.keyboard.press('Delete');
        await view.page.keyboard.type(text);
        if (text === 'Owned') await view.page.keyboard.press('Tab');
      }
      await view.page.keyboard.press('Enter');
      const sentence = `Partition ${key || '(empty key)'} of table Owned belongs to `;
      await answer(view).getByText(sentence).waitFor();
      const name = await answer(view).locator('b').innerText();
      const isThis = (await answer(view).innerText()).includes('(this one)');
      const marked = await view.rows.filter({ hasText: 'owner' }).innerText();
      assert.ok(marked.startsWith(name), `${marked} is marked, not ${name}`);
      assert.equal(marked.includes('this one'), isThis);
      return { name, isThis };
    };
    const forwarded = async () => Number(/^tavola_forwarded_total (\d+)$/m.exec(await (await fetch(`http://127.0.0.1:${health}/metrics`)).text())[1]);
    let rows = 0;
    const write = (key) => client.insert('Owned', { PartitionKey: key, RowKey: `w${rows++}` });
    const owned = new Map();
    let ofOther = '';
    for (const key of keys) {
      const [mine, theirs] = [await ask(here, key), await ask(there, key)];
      assert.equal(mine.name, theirs.name, `servers disagree about ${key}`);
      assert.notEqual(mine.isThis, theirs.isThis);
      owned.set(mine.name, (owned.get(mine.name) ?? 0) + 1);
      if (theirs.isThis) ofOther = key;
      // Writes go there; the first one to a partition is executed where it arrives.
      const before = await forwarded();
      for (let time = 0; time < 2; time++) await write(key);
      if (mine.isThis) assert.equal(await forwarded(), before, `a write to ${key} has left its owner`);
      else await until(async () => { await write(key); return (await forwarded()) > before; }, `no write to ${key} goes to its owner`);
    }
    assert.equal(owned.size, 2, 'one server owns every partition');
    await here.panel.getByRole('button', { name: 'Queue' }).click();
    await here.panel.getByLabel('Queue').fill('owned-tasks');
    await here.page.keyboard.press('Enter');
    await answer(here).getByText('Queue owned-tasks belongs to').waitFor();
    const ofQueue = await answer(here).locator('b').innerText();
    owned.set(ofQueue, (owned.get(ofQueue) ?? 0) + 1);
    for (const [name, count] of owned) {
      const cells = here.rows.filter({ hasText: name }).locator('td');
      await until(async () => (await cells.nth(2).innerText()) === String(count), `${name} does not own ${count}`);
      const share = Number.parseFloat(await cells.nth(3).innerText());
      assert.ok(Math.abs(share - (100 * count) / (keys.length + 1)) <= 0.5, `${share} % is not the share of ${count}`);
    }
    await here.page.reload();
    await answer(here).getByText('Queue owned-tasks belongs to').waitFor();
    await here.panel.getByRole('button', { name: 'Table' }).click();
    await here.panel.getByLabel('Table').fill('No-table');
    await here.page.keyboard.press('Enter');
    await here.panel.getByRole('alert').waitFor();
    assert.equal(await answer(here).locator('b').count(), 0, 'an owner is shown for a name that cannot be');
    await here.panel.getByLabel('Table').fill('Elsewhere');
    await here.page.keyboard.press('Enter');
    await answer(here).getByText('The account has no table of this name now.').waitFor();
    await checkAccess(here.page, 'cluster, light');
    await checkAccess(there.page, 'cluster, dark, on a phone');
    const wide = await there.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} pixels too wide for a phone`);
    // What a server that leaves has owned, the one that stays owns.
    assert.equal((await ask(here, ofOther)).isThis, false);
    await other.stop();
    await until(async () => (await here.rows.count()) === 1, 'a server that has stopped is still shown');
    await answer(here).getByText('(this one)').waitFor();
    for (const { page } of [here, there]) {
      assert.equal(await page.evaluate(() => window.pwned), undefined);
      assert.equal(await page.locator('img, iframe, object, embed').count(), 0);
    }
    assert.deepEqual(here.page.problems, []);
  } finally {
    await browser.close();
    await other.kill();
    await server.stop();
  }
});
