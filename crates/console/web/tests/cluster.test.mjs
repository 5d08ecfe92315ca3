// The cluster page, of servers that share a Cassandra: `cargo xtask cluster` starts it and tells how to use it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import axe from 'axe-core';
import { launch, openPage, startServer, until } from './support.mjs';

const engine = JSON.parse(process.env.TAVOLA_CLUSTER_ARGUMENTS ?? '[]');

test('shows the nodes, and servers as they come and go', { skip: engine.length === 0 && 'TAVOLA_CLUSTER_ARGUMENTS names no cluster' }, async () => {
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
    await page.evaluate(axe.source);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
    assert.deepEqual(found.violations.map((one) => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`), []);
    await other.stop();
    await until(async () => (await members.count()) === 1, 'a server that has stopped is still shown');
    assert.deepEqual(page.problems, []);
  } finally {
    await browser.close();
    await other.kill();
    await server.stop();
  }
});
