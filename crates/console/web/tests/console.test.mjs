// The console in a browser: every page clicked, typed into, dragged and resized, on a real server with real traffic.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import axe from 'axe-core';
import { launch, openPage, startServer, storage, until } from './support.mjs';

const ACCOUNT = 'devstoreaccount1';
/** Text that must only ever be seen as text. */
const HOSTILE = [
  `<img src=x onerror="window.pwned=1">`, `"><script>window.pwned=1</script>`, `' or 1 eq 1 or '`, `javascript:window.pwned=1`,
  '\u202Eevil\u202C', `{{constructor.constructor('window.pwned=1')()}}`, 'ünï ☃ 💥', 'x'.repeat(900), `a&b;c=d`,
];
let server, client, browser, page;

before(async () => {
  server = await startServer();
  client = storage(server);
  await client.table('People');
  for (const city of ['Turin', 'Rome']) {
    await client.batch('People', Array.from({ length: 100 }, (_, index) => ({
      PartitionKey: city, RowKey: `p-${String(index).padStart(4, '0')}`, Name: index === 3 ? '' : `Name ${index}`,
      ...(index % 2 ? { Age: index } : {}), 'Badge@odata.type': 'Edm.Int64', Badge: '9007199254740993', Active: index % 3 === 0,
    })));
  }
  await client.table('Hostile');
  for (const [index, text] of HOSTILE.entries()) {
    await client.insert('Hostile', { PartitionKey: text.replace(/[/\\#?]/g, '_').slice(0, 500), RowKey: `r${index}`, Value: `${text}\u0009\n`, [`P${index}`]: text });
  }
  await client.queue('jobs');
  await client.queue('jobs-poison');
  for (const text of HOSTILE.slice(0, 6)) await client.put('jobs', text);
  await client.put('jobs', JSON.stringify({ job: 'scheduled' }), '?visibilitytimeout=3000');
  await client.need('queue', 'GET', 'jobs/messages?numofmessages=2&visibilitytimeout=600');
  await client.put('jobs-poison', JSON.stringify({ error: HOSTILE[0] }));
  await client.container('files');
  await client.blob('files/docs/a.txt', 'first');
  await client.blob('files/docs/deep/b.txt', 'second');
  await client.blob(`files/${encodeURIComponent(HOSTILE[0])}`, '<script>window.pwned=1</script>', 'text/html');
  browser = await launch();
});
after(async () => { await browser?.close(); await server?.stop(); });
beforeEach(async () => { page = await openPage(browser); });
afterEach(async () => {
  const problems = page.problems;
  const pwned = await page.evaluate(() => window.pwned).catch(() => undefined);
  await page.context().close();
  assert.equal(pwned, undefined, 'stored text ran as a script');
  assert.deepEqual(problems, []);
});

const visit = async (hash) => { await page.goto(`${server.console}#/${hash}`); await page.getByRole('heading', { level: 1 }).waitFor(); };
const shown = (text) => page.getByText(text, { exact: false }).first().waitFor();
const rowCount = () => page.locator('.grid tbody tr:not(.placeholder)').count();
async function checkAccess(name) {
  await page.evaluate(axe.source);
  const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  const text = found.violations.map((one) => `${one.id}: ${one.help} ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
  assert.deepEqual(text, [], name);
}

describe('overview', () => {
  test('shows figures, tables, endpoints and health, and masks the key until asked', async () => {
    await visit('overview');
    await page.getByRole('region', { name: 'Tables by size' }).getByRole('link', { name: 'People' }).waitFor();
    await until(async () => /200/.test(await page.getByRole('row', { name: /^People/ }).innerText()), 'the table is not counted');
    const box = page.getByTestId ? page.locator('[data-test=connection]') : null;
    assert.match(await box.innerText(), /AccountKey=••••/);
    await page.getByRole('button', { name: 'Copy connection string' }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /AccountName=devstoreaccount1;AccountKey=Eby8vdM02x.*;TableEndpoint=http:\/\/127\.0\.0\.1:\d+\/devstoreaccount1/);
    await page.getByRole('button', { name: 'Key', exact: true }).click();
    assert.match(await box.innerText(), /AccountKey=Eby8vdM02x/);
    await page.getByRole('button', { name: 'SAS' }).click();
    await until(async () => /SharedAccessSignature=.*sig=/.test(await box.innerText()), 'no signature');
    await page.getByRole('region', { name: 'Store health' }).or(page.locator('[aria-label="Store health"]')).first().waitFor();
    await shown('answers reads');
    await checkAccess('overview');
  });

  test('figures move with requests to the data ports', async () => {
    await visit('overview');
    await shown('answers reads');
    for (let round = 0; round < 40; round++) await client.point('People', 'Turin', 'p-0001');
    await until(async () => Number.parseFloat((await page.locator('[data-test=requests]').innerText()).replace(',', '')) > 0, 'the rate stays zero');
  });

  test('creates a table, and drops it only by its name', async () => {
    await visit('overview');
    await page.getByRole('button', { name: 'New table' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New table' });
    await dialog.getByLabel('Name').fill('1bad');
    assert.equal(await dialog.getByRole('button', { name: 'Create' }).isDisabled(), true);
    await dialog.getByLabel('Name').fill('Fresh');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await shown('No entities yet');
    await page.getByRole('button', { name: 'Drop table' }).first().click();
    const drop = page.getByRole('dialog', { name: 'Drop table' });
    await drop.getByRole('textbox').fill('fresh');
    assert.equal(await drop.getByRole('button', { name: 'Drop table' }).isDisabled(), true);
    await drop.getByRole('textbox').fill('Fresh');
    await drop.getByRole('button', { name: 'Drop table' }).click();
    await until(async () => (await client.send('table', 'GET', 'Fresh()')).status === 404, 'the table is still there');
  });
});

describe('table', () => {
  const path = `table/${ACCOUNT}/People`;

  test('plans before it runs, completes names, and shows what was read', async () => {
    await visit(path);
    await until(async () => (await rowCount()) === 100, 'no page');
    await page.keyboard.press('/');
    await page.keyboard.type("PartitionKey eq 'Turin' and RowKey eq 'p-0001'");
    await shown('point read · 1 range');
    await page.locator('#filter').fill("PartitionKey eq 'Turin' and Na");
    await page.keyboard.press('End');
    await page.keyboard.type('m');
    await page.getByRole('option', { name: /Name/ }).waitFor();
    await checkAccess('completion');
    await page.keyboard.press('Tab');
    assert.match(await page.locator('#filter').inputValue(), /and Name $/);
    await page.keyboard.type("eq 'Name 7'");
    await shown('partition scan · 1 range');
    await page.keyboard.press('Control+Enter');
    await shown('returned 1 of 100 scanned');
    assert.equal(await rowCount(), 1);
    await page.locator('#filter').fill('Name eq');
    await shown('cannot plan');
    await page.getByRole('button', { name: /^Run/ }).click();
    await shown('The filter does not parse');
    await page.getByRole('button', { name: /Go to character/ }).click();
    await page.locator('.empty').getByRole('button', { name: 'Clear the filter' }).click();
    await page.getByRole('button', { name: /^Run/ }).click();
    await until(async () => (await rowCount()) === 100, 'no page after clearing');
  });

  test('pages by continuation, and Back keeps the tokens', async () => {
    await visit(path);
    await until(async () => (await rowCount()) === 100, 'no page');
    const firstKey = () => page.locator('.grid tbody tr').first().innerText();
    const first = await firstKey();
    await page.getByRole('button', { name: 'Next page' }).click();
    await shown('page 2');
    assert.notEqual(await firstKey(), first);
    assert.equal(await page.getByRole('button', { name: 'Next page' }).isDisabled(), true);
    await page.getByRole('button', { name: 'Back' }).click();
    await shown('page 1');
    assert.equal(await firstKey(), first);
  });

  test('edits typed values, refuses wrong ones, and merges under If-Match', async () => {
    await visit(`${path}?filter=${encodeURIComponent("PartitionKey eq 'Turin' and RowKey eq 'p-0005'")}`);
    await page.locator('.grid tbody tr').first().click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    assert.equal(await editor.getByLabel('Badge', { exact: true }).or(editor.getByLabel('Value of Badge')).first().inputValue(), '9007199254740993');
    await editor.getByLabel('Value of Age').fill('2147483648');
    await shown('Above the Int32 maximum');
    assert.equal(await editor.getByRole('button', { name: /^Merge/ }).isDisabled(), true);
    await editor.getByRole('button', { name: 'Use Edm.Int64' }).click();
    await editor.getByLabel('Value of Name').fill('Changed <b>here</b>');
    await checkAccess('editor');
    await editor.getByRole('button', { name: 'Merge 2 changes' }).click();
    await shown('Merged 2 changes');
    const kept = JSON.parse((await client.point('People', 'Turin', 'p-0005')).text);
    assert.deepEqual([kept.Name, kept['Age@odata.type'], kept.Age, kept.Badge], ['Changed <b>here</b>', 'Edm.Int64', '2147483648', '9007199254740993']);
  });

  test('shows theirs and yours when somebody else was first', async () => {
    await visit(`${path}?filter=${encodeURIComponent("PartitionKey eq 'Turin' and RowKey eq 'p-0009'")}`);
    await page.locator('.grid tbody tr').first().click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    await editor.getByLabel('Value of Name').fill('mine');
    await client.need('table', 'MERGE', "People(PartitionKey='Turin',RowKey='p-0009')", { body: '{"Name":"theirs"}', headers: { 'if-match': '*' } });
    await editor.getByRole('button', { name: /^Merge/ }).click();
    const conflict = page.getByRole('alertdialog');
    await conflict.waitFor();
    assert.match(await conflict.innerText(), /theirs[^]*mine/);
    await conflict.getByRole('button', { name: 'Save mine over it' }).click();
    await shown('Merged');
    assert.equal(JSON.parse((await client.point('People', 'Turin', 'p-0009')).text).Name, 'mine');
  });

  test('inserts, deletes with undo, and deletes for good', async () => {
    await visit(path);
    await page.getByRole('button', { name: 'Entity', exact: true }).click();
    const editor = page.getByRole('complementary', { name: 'New entity' });
    await editor.getByLabel('PartitionKey').fill('Oslo');
    await editor.getByLabel('RowKey').fill('new-1');
    await editor.getByRole('button', { name: 'Insert' }).click();
    await shown('Inserted Oslo / new-1');
    const there = async () => (await client.point('People', 'Oslo', 'new-1')).status;
    assert.equal(await there(), 200);
    const edit = page.getByRole('complementary', { name: 'Edit entity' });
    await edit.getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.locator('.grid').getByText('new-1').first().click();
    assert.equal(await there(), 200);
    await edit.getByRole('button', { name: 'Delete' }).click();
    await shown('Deleted Oslo / new-1');
    assert.equal(await there(), 200, 'it waits behind the toast');
    await page.goto(`${server.console}#/overview`);
    await until(async () => (await there()) === 404, 'leaving the page does not delete');
  });

  test('moves in the grid by keys', async () => {
    await visit(path);
    await page.locator('.grid tbody tr').first().focus();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press(' ');
    await page.getByRole('button', { name: 'Delete 1' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('complementary', { name: 'Edit entity' }).waitFor();
  });

  test('exports and imports the same entities, as CSV and as JSON lines', async () => {
    for (const [form, label] of [['csv', 'CSV'], ['jsonl', 'JSON lines']]) {
      const copy = `Copy${form}`;
      await client.table(copy);
      await visit(path);
      await page.getByRole('button', { name: 'Export' }).first().click();
      const dialog = page.getByRole('dialog', { name: 'Export People' });
      await dialog.getByRole('button', { name: label }).click();
      const saving = page.waitForEvent('download');
      await dialog.getByRole('button', { name: 'Export', exact: true }).click();
      const saved = await (await saving).path();
      await visit(`table/${ACCOUNT}/${copy}`);
      await page.getByRole('button', { name: 'Import' }).first().click();
      const load = page.getByRole('dialog', { name: `Import into ${copy}` });
      await load.getByLabel('File').setInputFiles({ name: `x.${form}`, mimeType: form === 'csv' ? 'text/csv' : 'application/json', buffer: readFileSync(saved) });
      await load.getByRole('button', { name: 'Import', exact: true }).click();
      await load.getByText(/\d+ of \d+ read written, done/).waitFor();
      const strip = (text) => JSON.parse(text).value.map(({ Timestamp, 'odata.etag': etag, ...rest }) => rest);
      const [before, after_] = await Promise.all(['People', copy].map(async (table) => strip((await client.send('table', 'GET', `${table}()`)).text)));
      assert.deepEqual(after_, before, form);
    }
  });

  test('says which line of an import is wrong', async () => {
    await visit(path);
    await page.getByRole('button', { name: 'Import' }).first().click();
    const load = page.getByRole('dialog', { name: 'Import into People' });
    await load.getByLabel('File').setInputFiles({ name: 'bad.csv', mimeType: 'text/csv', buffer: Buffer.from('PartitionKey,Name\na,b\n') });
    await load.getByRole('button', { name: 'Import', exact: true }).click();
    await shown('Line 2 has no PartitionKey or no RowKey');
  });
});

describe('queue', () => {
  test('shows hidden and scheduled messages, peeks, puts, and puts poison back', async () => {
    await visit(`queue/${ACCOUNT}/jobs`);
    await page.getByRole('option').first().waitFor();
    const states = await page.getByRole('option').allInnerTexts();
    assert.equal(states.filter((text) => text.startsWith('hidden')).length, 2);
    assert.equal(states.filter((text) => text.startsWith('scheduled')).length, 1);
    await page.getByRole('option', { name: /scheduled/ }).click();
    assert.match(await page.locator('[data-test=peek]').innerText(), /"job": "scheduled"/);
    await checkAccess('queue');
    await page.getByRole('button', { name: 'Make visible now' }).click();
    await until(async () => !(await page.getByRole('option').allInnerTexts()).some((text) => text.startsWith('scheduled')), 'it stays scheduled');
    await page.getByRole('button', { name: 'Message', exact: true }).click();
    const put = page.getByRole('dialog');
    await put.getByLabel('Text').fill('put by hand & <b>');
    await put.getByRole('button', { name: 'Put', exact: true }).click();
    await shown('Message put');
    await until(async () => (await client.send('queue', 'GET', 'jobs/messages?peekonly=true&numofmessages=32')).text.includes('put by hand &amp; &lt;b'), 'it was not put');
    await page.getByRole('button', { name: 'Put all back' }).click();
    await page.goto(`${server.console}#/overview`);
    await until(async () => !(await client.send('queue', 'GET', 'jobs-poison/messages?peekonly=true')).text.includes('MessageId'), 'the poison stays');
  });
});

describe('container', () => {
  test('walks prefixes, uploads, downloads and deletes', async () => {
    await visit(`container/${ACCOUNT}/files`);
    await page.getByRole('button', { name: 'docs/' }).click();
    await page.getByRole('button', { name: 'a.txt' }).first().click();
    await page.getByRole('complementary', { name: 'Blob' }).waitFor();
    await checkAccess('container');
    const saving = page.waitForEvent('download');
    await page.getByRole('complementary', { name: 'Blob' }).getByRole('link', { name: 'Download' }).click();
    assert.equal(readFileSync(await (await saving).path(), 'utf8'), 'first');
    const large = Buffer.alloc(9 * 1024 * 1024, 'tavola ');
    await page.locator('input[type=file]').setInputFiles([{ name: 'small.txt', mimeType: 'text/plain', buffer: Buffer.from('up') }, { name: 'large.bin', mimeType: 'application/octet-stream', buffer: large }]);
    await page.getByRole('button', { name: 'large.bin' }).first().waitFor();
    assert.equal((await client.send('blob', 'GET', 'files/docs/small.txt')).text, 'up');
    assert.equal((await client.send('blob', 'GET', 'files/docs/large.bin')).text.length, large.length);
    await page.getByRole('button', { name: 'small.txt' }).first().click();
    await page.getByRole('complementary', { name: 'Blob' }).getByRole('button', { name: 'Delete' }).click();
    await page.goto(`${server.console}#/overview`);
    await until(async () => (await client.send('blob', 'HEAD', 'files/docs/small.txt')).status === 404, 'it is still there');
  });

  test('a stored page is a file, not a page', async () => {
    await visit(`container/${ACCOUNT}/files`);
    await page.locator('table').getByText('onerror').first().waitFor();
    const answer = await page.evaluate(async (path) => { const got = await fetch(path); return [got.status, got.headers.get('content-type'), got.headers.get('content-disposition'), got.headers.get('content-security-policy')]; }, `/data/blob/${ACCOUNT}/files/${encodeURIComponent(HOSTILE[0])}`);
    assert.deepEqual(answer.slice(0, 3), [200, 'application/octet-stream', 'attachment']);
    assert.match(answer[3], /sandbox/);
  });
});

describe('live, heat map and advisor', () => {
  test('the tail shows requests, filters them, opens one and pauses', async () => {
    await visit('live');
    const asking = (async () => { for (let round = 0; round < 30; round++) { await client.query('People', "Name eq 'Name 7'"); await client.point('People', 'Turin', 'none'); } })();
    await page.locator('tr[data-id]').first().waitFor();
    await asking;
    await page.locator('#lf').fill('status:404');
    await until(async () => { const rows = await page.locator('tr[data-id]').allInnerTexts(); return rows.length > 0 && rows.every((row) => row.includes('404')); }, 'the filter does nothing');
    await page.locator('#lf').fill('table:people');
    await page.getByRole('button', { name: /^table scan/ }).click();
    await until(async () => !(await page.locator('tr[data-id]').allInnerTexts()).some((row) => row.includes('table scan')), 'the kind is still shown');
    await page.getByRole('button', { name: /^table scan/ }).click();
    await page.locator('tr[data-id]').first().click();
    await shown('Where the time went');
    await shown('Paused while a request is open');
    await checkAccess('live');
    await page.getByRole('button', { name: 'Resume' }).click();
    await page.locator('#lf').fill('zzzz');
    await shown('No request matches');
  });

  test('the heat map shows keys, moves by arrows and zooms by dragging', async () => {
    for (let round = 0; round < 60; round++) await client.point('People', round % 3 ? 'Turin' : 'Rome', `p-${String(round).padStart(4, '0')}`);
    await visit(`heatmap/${ACCOUNT}/People`);
    const map = page.locator('.hm canvas');
    await map.waitFor();
    const summary = () => page.locator('[data-test=heat-summary]').innerText();
    const whole = await summary();
    await map.focus();
    await page.keyboard.press('ArrowRight');
    await page.locator('[data-test=tip]').waitFor();
    assert.match(await page.locator('[data-test=tip]').innerText(), /op\/s|no data/);
    await checkAccess('heat map');
    for (const metric of ['Bytes', 'Latency', 'Rows scanned', 'Operations']) await page.getByRole('button', { name: metric }).click();
    const box = await map.boundingBox();
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.3);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.93, box.y + box.height * 0.8, { steps: 8 });
    await page.mouse.up();
    await until(async () => (await summary()) !== whole, 'no zoom');
    await page.keyboard.press('Escape');
    await until(async () => (await summary()) === whole, 'no way back');
  });

  test('the advisor names a scan, its request and its pattern', async () => {
    for (let round = 0; round < 60; round++) await client.query('People', `Name eq 'Name ${round}'`);
    await visit('advisor');
    const card = page.locator('.card', { hasText: 'table scan' }).first();
    await card.waitFor();
    const text = await card.innerText();
    assert.match(text, /People/);
    assert.match(text, /Name eq/);
    await checkAccess('advisor');
    const attempt = card.getByRole('button', { name: 'Try it on a copy' });
    if (await attempt.count()) {
      await attempt.click();
      await card.getByText(/replayed \d+ real requests/).waitFor();
      await checkAccess('what-if');
    }
    await card.getByRole('link', { name: 'Open heat map' }).click();
    await page.getByRole('heading', { name: /Heat map/, level: 1 }).waitFor();
  });
});

describe('access', () => {
  test('makes a signature that opens the table and nothing else', async () => {
    await visit('access');
    await page.getByRole('textbox', { name: 'Table' }).fill('People');
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
    const box = page.locator('[data-test=sas]');
    await box.waitFor();
    await checkAccess('access');
    const token = (await box.innerText()).trim();
    const ask = async (table) => (await fetch(`${server.table}/${table}()?${token}`, { headers: { 'x-ms-version': '2021-12-02' } })).status;
    assert.deepEqual([await ask('People'), await ask('Hostile')], [200, 403]);
  });

  test('an account that is not public asks for its key', async () => {
    const other = await startServer('--account', 'secret:c2VjcmV0IGtleQ==');
    try {
      await page.goto(other.console);
      await page.getByLabel('Account', { exact: true }).fill('secret');
      await page.getByLabel('Key', { exact: true }).fill('d3Jvbmc=');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('alert').waitFor();
      await checkAccess('sign-in');
      await page.getByLabel('Key', { exact: true }).fill('c2VjcmV0IGtleQ==');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
      assert.doesNotMatch(await page.locator('body').innerText(), /c2VjcmV0/);
    } finally {
      await other.stop();
    }
  });
});

describe('everywhere', () => {
  test('stored text is text, in every view', async () => {
    for (const place of ['overview', `table/${ACCOUNT}/Hostile`, `queue/${ACCOUNT}/jobs`, `container/${ACCOUNT}/files`, `heatmap/${ACCOUNT}/Hostile`, 'advisor', 'live', 'access', 'cluster']) {
      await visit(place);
      await page.waitForLoadState('networkidle').catch(() => {});
      if (place.startsWith('table')) {
        await until(async () => (await rowCount()) === HOSTILE.length, 'not all rows');
        for (let row = 0; row < HOSTILE.length; row++) {
          await page.locator('.grid tbody tr').nth(row).click();
          for (const tab of ['JSON', 'Fields']) await page.getByRole('tab', { name: tab }).click();
        }
      }
      if (place.startsWith('queue')) for (const option of await page.getByRole('option').all()) await option.click();
      if (place === 'live') {
        const asking = (async () => { for (const text of HOSTILE) await client.query('Hostile', `Value eq '${text.replace(/'/g, "''")}'`); })();
        await page.locator('tr[data-id]').first().waitFor();
        await asking;
        await page.locator('tr[data-id]').first().click();
      }
      assert.equal(await page.evaluate(() => window.pwned), undefined, place);
      assert.equal(await page.locator('img, iframe, object, embed').count(), 0, place);
    }
  });

  test('keys lead everywhere: palette, pages, theme', async () => {
    await visit('overview');
    await page.keyboard.press('Control+k');
    const palette = page.getByRole('dialog', { name: 'Go to' });
    await palette.getByRole('combobox').waitFor();
    await page.keyboard.type('jobs');
    await palette.getByRole('option', { name: 'jobs' }).first().waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'jobs', level: 1 }).waitFor();
    for (const [key, title] of [['l', 'Live requests'], ['a', 'Advisor'], ['o', 'Overview']]) {
      await page.locator('body').press('g');
      await page.locator('body').press(key);
      await page.getByRole('heading', { name: title, level: 1 }).waitFor();
    }
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.locator('body').press('t');
    assert.notEqual(await ground(), light);
    await checkAccess('dark overview');
  });

  test('a phone has a drawer, and nothing is wider than the screen', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    for (const place of ['overview', `table/${ACCOUNT}/People`, `table/${ACCOUNT}/Hostile`, `queue/${ACCOUNT}/jobs`, `container/${ACCOUNT}/files`, `heatmap/${ACCOUNT}/People`, 'advisor', 'live', 'access']) {
      await visit(place);
      await page.waitForTimeout(300);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${place} is ${wide} pixels too wide`);
    }
    await page.getByRole('button', { name: 'Open navigation' }).click();
    await page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'Overview' }).click();
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    await checkAccess('phone');
    await page.setViewportSize({ width: 2200, height: 1200 });
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
  });

  test('a lost stream is said, and the page recovers', async () => {
    const other = await startServer();
    await page.goto(other.console);
    await shown('answers reads');
    await other.kill();
    await page.getByText(/Last seen \d+ s ago, retrying/).waitFor();
    page.problems.length = 0;
  });
});
