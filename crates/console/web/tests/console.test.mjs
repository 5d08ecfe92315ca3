// The console in a browser: every page clicked, typed into, dragged and resized, on a real server with real traffic.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { checkAccess as checkPage, launch, openPage, startServer, storage, until } from './support.mjs';

const ACCOUNT = 'devstoreaccount1';
/** Text that must only ever be seen as text. */
const HOSTILE = [
  `<img src=x onerror="window.pwned=1">`, `"><script>window.pwned=1</script>`, `' or 1 eq 1 or '`, `javascript:window.pwned=1`,
  '\u202Eevil\u202C', `{{constructor.constructor('window.pwned=1')()}}`, 'ünï ☃ 💥', 'x'.repeat(900), `a&b;c=d`,
];
/** The text as a PartitionKey, which allows less. */
const keyOf = (text) => text.replace(/[/\\#?]/g, '_').slice(0, 500);
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
    await client.insert('Hostile', { PartitionKey: keyOf(text), RowKey: `r${index}`, Value: `${text}\u0009\n`, [`P${index}`]: text });
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
const checkAccess = (name) => checkPage(page, name);

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
    const sized = (name) => page.getByRole('region', { name: `${name} with size and rate` }).locator('tbody');
    await until(async () => { await client.put('jobs', 'one more'); await client.send('blob', 'GET', 'files/docs/a.txt'); return /^jobs\s+\d+\s+0?\.?[1-9]/m.test(await sized('Queues').innerText()); }, 'a queue has no rate');
    await until(async () => /files\s+3\s+\d+ B\s+0\.\d/.test(await sized('Containers').innerText()), 'a container has no size or no rate');
    assert.match(await sized('Accounts').innerText(), /devstoreaccount1\s+[\d.]+ kB\s+[\d.]+/);
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
    const goTo = page.getByRole('button', { name: /Go to position/ });
    const position = Number(/\d+/.exec(await goTo.innerText())[0]);
    await goTo.click();
    const caret = () => page.evaluate(() => (document.activeElement?.id === 'filter' ? document.activeElement.selectionStart : -1));
    await until(async () => (await caret()) === position, 'the caret is elsewhere');
    await page.locator('.empty').getByRole('button', { name: 'Clear the filter' }).click();
    await page.getByRole('button', { name: /^Run/ }).click();
    await until(async () => (await rowCount()) === 100, 'no page after clearing');
  });

  test('pages by continuation, and Back keeps the tokens', async () => {
    await visit(path);
    await until(async () => (await rowCount()) === 100, 'no page');
    const firstKey = () => page.locator('.grid tbody tr:not(.placeholder)').first().innerText();
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
    await page.locator('.grid tbody tr:not(.placeholder)').first().click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    assert.equal(await editor.getByLabel('Badge', { exact: true }).or(editor.getByLabel('Value of Badge')).first().inputValue(), '9007199254740993');
    await editor.getByLabel('Value of Age').fill('2147483648');
    await shown('Above the Int32 maximum');
    assert.equal(await editor.getByRole('button', { name: /^Merge.* fix Age$/ }).isDisabled(), true);
    await editor.getByRole('button', { name: 'Use Edm.Int64' }).click();
    await editor.getByLabel('Value of Name').fill('Changed <b>here</b>');
    assert.equal(await page.locator('.pager .legend').isVisible(), true, 'the marks in the grid are not explained');
    await checkAccess('editor');
    await editor.getByRole('button', { name: 'Merge 2 changes' }).click();
    await shown('Merged 2 changes');
    const kept = JSON.parse((await client.point('People', 'Turin', 'p-0005')).text);
    assert.deepEqual([kept.Name, kept['Age@odata.type'], kept.Age, kept.Badge], ['Changed <b>here</b>', 'Edm.Int64', '2147483648', '9007199254740993']);
  });

  test('shows theirs and yours when somebody else was first', async () => {
    await visit(`${path}?filter=${encodeURIComponent("PartitionKey eq 'Turin' and RowKey eq 'p-0009'")}`);
    await page.locator('.grid tbody tr:not(.placeholder)').first().click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    await editor.getByLabel('Value of Name').fill('mine');
    await client.need('table', 'MERGE', "People(PartitionKey='Turin',RowKey='p-0009')", { body: '{"Name":"theirs"}', headers: { 'if-match': '*' } });
    await editor.getByRole('button', { name: /^Merge/ }).click();
    const conflict = page.getByRole('alertdialog');
    await conflict.waitFor();
    assert.match(await conflict.innerText(), /theirs[^]*mine/);
    await checkAccess('conflict');
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

  test('an inserted number keeps its type when it is edited', async () => {
    await visit(path);
    await page.getByRole('button', { name: 'Entity', exact: true }).click();
    const editor = page.getByRole('complementary', { name: 'New entity' });
    for (const remove of await editor.getByRole('button', { name: /^Remove / }).all().then((all) => all.reverse())) await remove.click();
    await editor.getByLabel('PartitionKey').fill('Oslo');
    await editor.getByLabel('RowKey').fill('typed');
    for (const [name, type, text] of [['Count', 'Int32', '41'], ['Ratio', 'Double', '0.5'], ['Note', 'String', 'first']]) {
      await editor.getByRole('button', { name: 'Add property' }).click();
      await editor.getByLabel('Name of the property').last().fill(name);
      await editor.getByLabel(`Type of ${name}`).selectOption(type);
      await editor.getByLabel(`Value of ${name}`).fill(text);
    }
    await editor.getByRole('button', { name: 'Insert' }).click();
    const edit = page.getByRole('complementary', { name: 'Edit entity' });
    assert.equal(await edit.getByLabel('Type of Count').inputValue(), 'Int32');
    assert.equal(await edit.getByLabel('Type of Ratio').inputValue(), 'Double');
    await edit.getByLabel('Value of Count').fill('42');
    await edit.getByLabel('Value of Ratio').fill('1.5');
    await edit.getByRole('button', { name: 'Merge 2 changes' }).click();
    await shown('Merged 2 changes');
    const kept = JSON.parse((await client.point('People', 'Oslo', 'typed')).text);
    assert.deepEqual([kept.Count, kept.Ratio, kept['Ratio@odata.type'] ?? 'Edm.Double'], [42, 1.5, 'Edm.Double']);
    await client.need('table', 'DELETE', "People(PartitionKey='Oslo',RowKey='typed')", { headers: { 'if-match': '*' } });
  });

  test('a wrong key keeps an insert back, and long text keeps the focus', async () => {
    await visit(path);
    await page.getByRole('button', { name: 'Entity', exact: true }).click();
    const editor = page.getByRole('complementary', { name: 'New entity' });
    const insert = editor.getByRole('button', { name: /^Insert/ });
    await editor.getByLabel('PartitionKey').fill('a/b');
    assert.deepEqual([await insert.isDisabled(), await insert.innerText()], [true, 'Insert · fix PartitionKey']);
    await editor.getByLabel('PartitionKey').fill('ab');
    await editor.getByLabel('RowKey').fill('r?');
    assert.deepEqual([await insert.isDisabled(), await insert.innerText()], [true, 'Insert · fix RowKey']);
    await editor.getByLabel('RowKey').fill('r');
    assert.deepEqual([await insert.isDisabled(), await insert.innerText()], [false, 'Insert']);
    const name = editor.getByLabel('Value of Name');
    await name.focus();
    await page.keyboard.type('x'.repeat(80));
    assert.equal(await name.inputValue(), 'x'.repeat(80));
  });

  test('replace keeps what $select leaves out', async () => {
    await visit(`${path}?filter=${encodeURIComponent("PartitionKey eq 'Turin' and RowKey eq 'p-0011'")}&select=Name`);
    await until(async () => (await rowCount()) === 1, 'no row');
    await page.locator('.grid tbody tr:not(.placeholder)').first().click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    await editor.getByLabel('Value of Badge').waitFor();
    await editor.getByLabel('Value of Name').fill('Replaced');
    await editor.getByRole('button', { name: 'Replace' }).click();
    await shown('Replaced');
    const kept = JSON.parse((await client.point('People', 'Turin', 'p-0011')).text);
    assert.deepEqual([kept.Name, kept.Age, kept.Badge, kept.Active], ['Replaced', 11, '9007199254740993', false]);
    assert.equal(await page.locator('.grid thead').getByText('Badge').count(), 0, 'the page still shows what was selected');
  });

  test('a delete can be undone while other toasts come and go', async () => {
    await client.insert('People', { PartitionKey: 'Oslo', RowKey: 'kept' });
    const there = async () => (await client.point('People', 'Oslo', 'kept')).status;
    await visit(`${path}?filter=${encodeURIComponent("PartitionKey eq 'Oslo' and RowKey eq 'kept'")}`);
    await page.locator('.grid tbody tr:not(.placeholder)').first().click();
    const edit = page.getByRole('complementary', { name: 'Edit entity' });
    await edit.getByRole('button', { name: 'Copy keys' }).click();
    await edit.getByRole('button', { name: 'Delete' }).click();
    await page.locator('#filter').fill('');
    await page.getByRole('button', { name: /^Run/ }).click();
    await page.locator('.grid tbody tr:not(.placeholder)').first().click();
    await edit.getByRole('button', { name: 'Copy keys' }).click();
    await shown('Copied');
    assert.equal(await there(), 200, 'a toast has done what waits behind another');
    await page.getByRole('button', { name: 'Undo' }).click();
    assert.equal(await there(), 200);
    await page.goto(`${server.console}#/overview`);
    await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
    assert.equal(await there(), 200);
    await client.need('table', 'DELETE', "People(PartitionKey='Oslo',RowKey='kept')", { headers: { 'if-match': '*' } });
  });

  test('closing the tab sends the deletes that wait', async () => {
    for (let index = 0; index < 12; index++) await client.insert('People', { PartitionKey: 'Closing', RowKey: `r${index}` });
    const other = await openPage(browser);
    await other.goto(`${server.console}#/${path}?filter=${encodeURIComponent("PartitionKey eq 'Closing'")}`);
    await other.getByLabel('Select all').check();
    await other.getByRole('button', { name: 'Delete 12' }).click();
    await other.getByText('Deleted 12 entities').waitFor();
    assert.equal(JSON.parse((await client.query('People', "PartitionKey eq 'Closing'")).text).value.length, 12);
    await other.close();
    await until(async () => JSON.parse((await client.query('People', "PartitionKey eq 'Closing'")).text).value.length === 0, 'some were not deleted');
    await other.context().close();
  });

  test('a table scan is red, and a plan says what it reads', async () => {
    await visit(path);
    await page.locator('#filter').fill("PartitionKey eq 'Turin' and Name eq 'x'");
    await page.locator('.planline').getByText(/partition scan · 1 range · about \d+ rows/).waitFor();
    await page.locator('#filter').fill("Name eq 'Name 7'");
    await page.locator('.planline').getByText(/table scan · 1 range · 2\d\d rows/).waitFor();
    await page.getByRole('button', { name: /^Run/ }).click();
    await page.locator('.resbar.bad').getByText('returned 2 of').waitFor();
  });

  test('an import puts alternating partitions together', async () => {
    await client.table('Mixed');
    await visit(`table/${ACCOUNT}/Mixed`);
    const lines = Array.from({ length: 400 }, (_, index) => `p${index % 8},r${index},${index}`);
    let batches = 0;
    page.on('request', (request) => { if (request.url().endsWith('/$batch')) batches++; });
    await page.getByRole('button', { name: 'Import' }).first().click();
    const load = page.getByRole('dialog', { name: 'Import into Mixed' });
    await load.getByLabel('File').setInputFiles({ name: 'x.csv', mimeType: 'text/csv', buffer: Buffer.from(`PartitionKey,RowKey,Value\n${lines.join('\n')}\n`) });
    await load.getByRole('button', { name: 'Import', exact: true }).click();
    await load.getByText('400 of 400 read written, done').waitFor();
    assert.equal(batches, 8);
    assert.equal(JSON.parse((await client.send('table', 'GET', 'Mixed()')).text).value.length, 400);
  });

  test('an export of a query has its properties, and columns that come late', async () => {
    await client.table('Late');
    await client.batch('Late', Array.from({ length: 100 }, (_, index) => ({ PartitionKey: 'a', RowKey: `r${String(index).padStart(4, '0')}`, First: `one, "${index}"\ntwo` })));
    for (let page = 0; page < 10; page++) await client.batch('Late', Array.from({ length: 100 }, (_, index) => ({ PartitionKey: 'b', RowKey: `r${page}-${String(index).padStart(4, '0')}`, First: 'x', Later: index })));
    await visit(`table/${ACCOUNT}/Late`);
    const exported = async (choose) => {
      await page.getByRole('button', { name: 'Export' }).first().click();
      const dialog = page.getByRole('dialog', { name: 'Export Late' });
      await choose?.(dialog);
      const saving = page.waitForEvent('download');
      await dialog.getByRole('button', { name: 'Export', exact: true }).click();
      const text = readFileSync(await (await saving).path(), 'utf8');
      await dialog.locator('footer').getByRole('button', { name: 'Close' }).click();
      return text;
    };
    const whole = await exported();
    const rows = whole.split(/\n(?=a,|b,|$)/).filter(Boolean);
    assert.equal(rows[0], 'PartitionKey,RowKey,Timestamp,First,First@type,Later,Later@type');
    assert.equal(rows.length, 1101);
    assert.match(rows[1], /^a,r0000,[^,]*,"one, ""0""\ntwo",Edm.String,,$/);
    assert.match(rows[1100], /,99,Edm.Int32$/);
    await page.locator('#filter').fill("PartitionKey eq 'a'");
    await page.getByLabel('$select').fill('First');
    const part = await exported((dialog) => dialog.getByRole('button', { name: 'This query' }).click());
    assert.equal(part.split(/\n(?=a,|$)/).filter(Boolean).length, 101);
    assert.ok(!part.includes('Later'));
    assert.ok((await exported((dialog) => dialog.getByRole('button', { name: 'Whole table' }).click())).includes('Later'), 'a whole table has all properties');
  });

  test('moves in the grid by keys', async () => {
    await visit(path);
    await page.locator('.grid tbody tr:not(.placeholder)').first().focus();
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

  test('a number without a type is an Int32 as far as that goes', async () => {
    await client.table('Bounds');
    await visit(`table/${ACCOUNT}/Bounds`);
    await page.getByRole('button', { name: 'Import' }).first().click();
    const load = page.getByRole('dialog', { name: 'Import into Bounds' });
    const entity = '{"PartitionKey":"a","RowKey":"r","Least":-2147483648,"Most":2147483647,"Below":-2147483649,"Above":2147483648}';
    await load.getByLabel('File').setInputFiles({ name: 'x.jsonl', mimeType: 'application/json', buffer: Buffer.from(`${entity}\n`) });
    await load.getByRole('button', { name: 'Import', exact: true }).click();
    await load.getByText('1 of 1 read written, done').waitFor();
    const kept = JSON.parse((await client.point('Bounds', 'a', 'r')).text);
    assert.deepEqual([kept.Least, kept.Most, kept.Below, kept.Above], [-2147483648, 2147483647, '-2147483649', '2147483648']);
    assert.deepEqual(['Least', 'Most', 'Below', 'Above'].map((name) => kept[`${name}@odata.type`]), [undefined, undefined, 'Edm.Int64', 'Edm.Int64']);
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
    await page.getByRole('button', { name: 'Put all 1 back' }).click();
    await page.goto(`${server.console}#/overview`);
    await until(async () => !(await client.send('queue', 'GET', 'jobs-poison/messages?peekonly=true')).text.includes('MessageId'), 'the poison stays');
  });
});

describe('poison', () => {
  test('is grouped by error, and all of it goes back, more than a page shows', async () => {
    await client.queue('bulk');
    await client.queue('bulk-poison');
    const put = (index) => client.put('bulk-poison', JSON.stringify({ error: index % 3 ? `timeout after ${index} ms` : 'no such customer', job: index }));
    for (let index = 0; index < 230; index += 10) await Promise.all(Array.from({ length: 10 }, (_, one) => put(index + one)));
    await visit(`queue/${ACCOUNT}/bulk`);
    const poison = page.getByRole('region', { name: 'Poison', exact: true });
    await poison.getByText(/timeout after \d+ ms/).waitFor();
    assert.equal(await poison.locator('tbody tr').count(), 2);
    await poison.getByText('Grouped from the first 200 messages').waitFor();
    await checkAccess('poison');
    await page.getByRole('button', { name: 'Put all 230 back' }).click();
    await page.goto(`${server.console}#/overview`);
    const count = async (queue) => Number((await client.need('queue', 'GET', `${queue}?comp=metadata`)).headers.get('x-ms-approximate-messages-count'));
    await until(async () => (await count('bulk-poison')) === 0, 'some stay');
    await until(async () => (await count('bulk')) === 230, 'some are lost or doubled');
    assert.match((await client.need('queue', 'GET', 'bulk/messages?peekonly=true')).text, /customer|timeout/, 'they are visible');
  });
});

describe('container', () => {
  test('walks prefixes, uploads, downloads and deletes', async () => {
    await visit(`container/${ACCOUNT}/files`);
    await page.getByRole('button', { name: 'docs/' }).click();
    await page.getByRole('button', { name: 'a.txt' }).first().click();
    await page.getByRole('complementary', { name: 'Blob' }).waitFor();
    await checkAccess('container');
    await page.getByRole('button', { name: 'Copy address' }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `${server.blob}/files/docs/a.txt`);
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

  test('takes files that are dropped on it, whatever their names are', async () => {
    await client.container('dropped');
    await visit(`container/${ACCOUNT}/dropped`);
    const names = [HOSTILE[0], HOSTILE[4], HOSTILE[6]];
    const data = await page.evaluateHandle((all) => {
      const dragged = new DataTransfer();
      for (const name of all) dragged.items.add(new File([`content of ${name}`], name, { type: 'text/plain' }));
      return dragged;
    }, names);
    const target = page.locator('section.blobs');
    await page.getByText('No blobs yet').waitFor();
    await target.dispatchEvent('dragover', { dataTransfer: data });
    await page.locator('section.blobs.over').waitFor();
    await target.dispatchEvent('drop', { dataTransfer: data });
    await page.locator('.uploads').getByText(HOSTILE[0], { exact: true }).waitFor();
    assert.equal(await page.locator('section.blobs.over').count(), 0);
    for (const name of names) {
      await page.getByRole('button', { name, exact: true }).waitFor();
      assert.equal((await client.send('blob', 'GET', `dropped/${encodeURIComponent(name)}`)).text, `content of ${name}`);
    }
    await page.locator('input[type=file]').setInputFiles([{ name: HOSTILE[0], mimeType: 'text/html', buffer: Buffer.from('chosen') }]);
    await until(async () => (await client.send('blob', 'GET', `dropped/${encodeURIComponent(HOSTILE[0])}`)).text === 'chosen', 'the file is not uploaded');
    assert.equal(await page.locator('img, iframe, object, embed').count(), 0);
    await client.need('blob', 'DELETE', 'dropped?restype=container');
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
    // More than a page is sent in a second: it is told so.
    await until(async () => { await Promise.all(Array.from({ length: 120 }, () => client.point('People', 'Turin', 'p-0001'))); return /showing \d+ of \d+\/s/.test(await page.locator('[data-test=sampling]').innerText()); }, 'the page claims to show all');
    await client.point('People', 'Turin', 'none');
    await page.locator('#lf').fill('status:404');
    await until(async () => { const rows = await page.locator('tr[data-id]').allInnerTexts(); return rows.length > 0 && rows.every((row) => row.includes('404')); }, 'the filter does nothing');
    await page.locator('#lf').fill('queue:people');
    await shown('No request matches');
    await page.locator('#lf').fill('table:people');
    await page.getByRole('button', { name: /^table scan/ }).click();
    await until(async () => !(await page.locator('tr[data-id]').allInnerTexts()).some((row) => row.includes('table scan')), 'the kind is still shown');
    await page.getByRole('button', { name: /^table scan/ }).click();
    await page.locator('tr[data-id]').first().click();
    await shown('Where the time went');
    assert.match(await page.locator('[data-test=sampling]').innerText(), /^Paused while a request is open · [\d.k]+\/s, showing/);
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
    // Requests of now are dark cells at the right end.
    const colours = () => map.evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(canvas.width * 0.8, canvas.height * 0.15, canvas.width * 0.14, canvas.height * 0.7);
      const seen = new Map();
      for (let at = 0; at < data.length; at += 4) { const key = data.slice(at, at + 3).join(); seen.set(key, (seen.get(key) ?? 0) + 1); }
      return [...seen].filter(([, count]) => count > 20).map(([key]) => key.split(',').map(Number));
    });
    await until(async () => (await colours()).some(([red, green, blue]) => red + green + blue < 500), 'no cell has a colour');
    const size = await map.boundingBox();
    await page.mouse.move(size.x + size.width * 0.5, size.y + size.height * 0.5);
    await until(async () => /Keys in range/.test(await page.locator('[data-test=tip]').innerText()), 'no tip under the pointer');
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
    // A drag that the browser takes away, as it does for a scroll, ends without a zoom: the pointer shows cells again.
    await page.mouse.move(box.x + box.width * 0.5, box.y + box.height * 0.3);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, box.y + box.height * 0.7, { steps: 8 });
    await until(async () => (await page.locator('[data-test=tip]').count()) === 0, 'a tip is in the way of the drag');
    await map.dispatchEvent('pointercancel');
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5, { steps: 4 });
    await page.locator('[data-test=tip]').waitFor();
    await page.mouse.up();
    await page.keyboard.press('ArrowLeft');
    await page.locator('[data-test=tip]').waitFor();
    assert.equal(await summary(), whole, 'a cancelled drag zooms');
    await until(async () => (await summary()) === whole, 'no way back');
    // With Shift the keys alone are narrowed: the time stays.
    const asked = page.waitForRequest((request) => /\/api\/heat\?.*fromPartition=/.test(request.url()));
    await page.keyboard.down('Shift');
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.2);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.6, { steps: 8 });
    await page.mouse.up();
    await page.keyboard.up('Shift');
    const query = new URL((await asked).url()).searchParams;
    assert.ok(Number(query.get('to')) - Number(query.get('from')) >= 3540, 'the time was narrowed too');
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
    await attempt.click();
    await card.getByText(/replayed \d+ real requests/).waitFor();
    for (const line of ['Rows read', 'Hottest', 'Lately', 'Size', 'A month']) await card.locator('.tried .m', { hasText: line }).waitFor();
    await checkAccess('what-if');
    await card.getByRole('link', { name: 'Open heat map' }).click();
    await page.getByRole('heading', { name: /Heat map/, level: 1 }).waitFor();
  });
});

describe('heat marks', () => {
  test('a mark is drawn, links to its finding and is only text; a row of one partition opens that partition', async () => {
    await client.point('People', 'Turin', 'p-0001');
    await page.route('**/api/heat?**', async (route) => {
      const answer = await route.fetch();
      const view = await answer.json();
      view.marks = [{ kind: 'append', row_from: 0, row_to: view.rows.length - 1, column_from: 2, column_to: view.columns.length - 2, text: HOSTILE[0], path: [{ row: 0, column: 2 }, { row: view.rows.length - 1, column: view.columns.length - 2 }] }, { kind: 'hot', row_from: 0, row_to: 0, column_from: 1, column_to: 3, text: HOSTILE[1], path: [] }];
      view.rows = [{ ...view.rows[0], label: HOSTILE[0], from: { partition: "it's", row: '' }, to: { partition: "it's\u0000", row: '' }, is_part: false, keys: 1 }, ...view.rows.slice(1)];
      await route.fulfill({ response: answer, json: view });
    });
    await page.route('**/api/findings', async (route) => {
      const answer = await route.fetch();
      const { findings } = await answer.json();
      const one = { rule: 'hot-partition', severity: 'bad', title: HOSTILE[0], fact: HOSTILE[1], pattern: '', guide_section: '', advice: '', price: '', account: ACCOUNT, table: 'People', shape: null, plan: null, example: null, keys: [], what_if: null, requests_per_hour: 1, rows_scanned: 0, rows_returned: 0, weight: 1, cost_per_month: null };
      await route.fulfill({ response: answer, json: { findings: [...findings, { ...one, id: 'hot one' }] } });
    });
    await visit(`heatmap/${ACCOUNT}/People`);
    await page.locator('.seen').getByText('onerror').waitFor();
    await until(async () => (await page.getByRole('link', { name: 'Spread it' }).getAttribute('href')) === '#/advisor?at=hot%20one', 'the mark does not lead to its finding');
    await page.locator('.hm canvas').focus();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    await page.locator('#filter').waitFor();
    assert.equal(await page.locator('#filter').inputValue(), "PartitionKey eq 'it''s'");
  });

  test('the line of a mark goes where the load goes: down for appended keys, up for prepended ones', async () => {
    await client.point('People', 'Turin', 'p-0001');
    // Lines are dashed in no other place.
    await page.addInitScript(() => {
      const { moveTo, lineTo, setLineDash } = CanvasRenderingContext2D.prototype;
      let isDashed = false;
      window.dashed = [];
      Object.assign(CanvasRenderingContext2D.prototype, {
        setLineDash(dashes) { isDashed = dashes.length > 0; if (isDashed) window.dashed = []; setLineDash.call(this, dashes); },
        moveTo(x, y) { if (isDashed) window.dashed.push([x, y]); moveTo.call(this, x, y); },
        lineTo(x, y) { if (isDashed) window.dashed.push([x, y]); lineTo.call(this, x, y); },
      });
    });
    let rowAt = (share) => Math.round(share);
    let columns = 0;
    await page.route('**/api/heat?**', async (route) => {
      const answer = await route.fetch();
      const view = await answer.json();
      columns = view.columns.length;
      view.rows = Array.from({ length: 6 }, (_, row) => ({ label: `k${row}`, from: { partition: `k${row}`, row: '' }, to: { partition: `k${row + 1}`, row: '' }, keys: 1, group: 'k', is_part: false }));
      const path = view.columns.map((_, column) => ({ row: rowAt((5 * column) / (columns - 1)), column }));
      view.cells = path.map((point) => ({ ...point, value: 60, estimated: false }));
      view.marks = [{ kind: 'append', row_from: 0, row_to: 5, column_from: 0, column_to: columns - 1, text: 'in order of keys', path }];
      await route.fulfill({ response: answer, json: view });
    });
    /** Where the line goes, from its start to its end. */
    const drawn = async () => {
      await visit('overview');
      await page.evaluate(() => { window.dashed = []; });
      await visit(`heatmap/${ACCOUNT}/People`);
      await page.locator('.seen').getByText('in order of keys').waitFor();
      await until(() => page.evaluate(() => window.dashed.length > 1), 'no line is drawn');
      const points = await page.evaluate(() => window.dashed);
      assert.equal(points.length, columns, 'the line leaves out a column');
      points.slice(1).forEach(([x], place) => assert.ok(x > points[place][0], 'the line goes back in time'));
      return points.map(([, y]) => y);
    };
    const appended = await drawn();
    assert.deepEqual(appended, [...appended].sort((left, right) => left - right));
    assert.ok(appended.at(-1) > appended[0], 'the line does not go down');
    rowAt = (share) => 5 - Math.round(share);
    const prepended = await drawn();
    assert.deepEqual(prepended, [...prepended].sort((left, right) => right - left));
    assert.deepEqual([prepended[0], prepended.at(-1)], [appended.at(-1), appended[0]]);
  });

  test('the map is drawn again for the width that it has', async () => {
    await client.point('People', 'Turin', 'p-0001');
    await visit(`heatmap/${ACCOUNT}/People`);
    const map = page.locator('.hm canvas').first();
    await map.waitFor();
    const drawn = () => map.evaluate((canvas) => {
      const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
      // Of the right half, where cells are: what is not transparent.
      let filled = 0;
      for (let y = 0; y < canvas.height; y += 7) for (let x = canvas.width >> 1; x < canvas.width; x += 7) if (data[(y * canvas.width + x) * 4 + 3]) filled++;
      return { canvas: canvas.width / (devicePixelRatio || 1), shown: canvas.clientWidth, box: canvas.parentElement.clientWidth, filled };
    });
    for (const width of [1280, 900, 1800, 390, 1280]) {
      await page.setViewportSize({ width, height: 800 });
      await until(async () => { const now = await drawn(); return Math.abs(now.canvas - now.shown) <= 1 && now.shown <= now.box && now.filled > 100; }, `the map does not fit a window of ${width}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `at ${width} the page is ${wide} pixels too wide`);
      await map.focus();
      await page.keyboard.press('ArrowLeft');
      await page.locator('[data-test=tip]').waitFor();
    }
  });

  test('labels leave out what all rows share, and bars beside latencies show the highest', async () => {
    await client.point('People', 'Turin', 'p-0001');
    await page.addInitScript(() => {
      const { fillText, fillRect } = CanvasRenderingContext2D.prototype;
      window.texts = new Set();
      window.bars = [];
      Object.assign(CanvasRenderingContext2D.prototype, {
        fillText(text, ...place) { window.texts.add(text.trim()); fillText.call(this, text, ...place); },
        fillRect(x, y, width, height) { if (this.canvas.getAttribute('role') === 'application') window.bars.push([x, width]); fillRect.call(this, x, y, width, height); },
      });
    });
    await page.route('**/api/heat?**', async (route) => {
      const answer = await route.fetch();
      const view = await answer.json();
      const row = (partition, group, to) => ({ label: `${partition}…`, from: { partition, row: '' }, to: { partition: to, row: '' }, keys: 2, group, is_part: false });
      view.rows = [row('hour|2026-11-14T19:00', 'hour|', 'hour|2026-11-15T01:00'), row('hour|2026-11-15T01:00', 'hour|', 'user|a'), row('user|a', 'user|', 'user|m'), row('user|m', 'user|', 'user|z')];
      const seconds = view.columns[0].to - view.columns[0].from;
      // The first row has much at once, the second a little again and again.
      view.cells = [{ row: 0, column: 0, value: 30 * seconds, estimated: false }, ...[0, 1, 2, 3].map((column) => ({ row: 1, column, value: 10 * seconds, estimated: false }))];
      view.marks = [];
      await route.fulfill({ response: answer, json: view });
    });
    await visit(`heatmap/${ACCOUNT}/People`);
    await until(() => page.evaluate(() => window.texts.has('hour|14T19:00…')), 'the label is not short');
    const texts = await page.evaluate(() => [...window.texts]);
    for (const text of ['hour|15T01:00…', 'user|a…', 'user|m…', 'total over keys']) assert.ok(texts.includes(text), `${text} is not among ${texts}`);
    /** The widths of the bars beside the rows: they are the rightmost rectangles. */
    const beside = async () => {
      const bars = await page.evaluate(() => window.bars);
      const right = Math.max(...bars.map(([x]) => x));
      return bars.filter(([x]) => x === right).slice(-4).map(([, width]) => width);
    };
    const [once, often] = await beside();
    assert.ok(often > once, 'operations are not added up');
    await page.getByRole('button', { name: 'Latency' }).click();
    await until(() => page.evaluate(() => window.texts.has('highest over keys')), 'the bars are totals');
    const [slowest, slow] = await beside();
    assert.ok(slowest > slow * 2, 'latencies are added up');
  });

  test('on a phone the range can be chosen, and a tap shows a cell', async () => {
    const phone = await openPage(browser, { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    try {
      await client.point('People', 'Turin', 'p-0001');
      await phone.goto(`${server.console}#/heatmap/${ACCOUNT}/People`);
      const map = phone.locator('.hm canvas');
      await map.waitFor();
      await phone.getByText('Drag sideways over the map to zoom in').waitFor();
      await phone.getByRole('group', { name: 'Time range' }).getByRole('button', { name: '15 min' }).tap();
      await until(async () => (await phone.getByRole('group', { name: 'Time range' }).getByRole('button', { name: '15 min' }).getAttribute('aria-pressed')) === 'true', 'the range is not chosen');
      await until(async () => {
        const box = await map.boundingBox();
        await phone.touchscreen.tap(box.x + box.width * 0.7, box.y + box.height * 0.4);
        return phone.locator('[data-test=tip]').isVisible();
      }, 'no cell is shown');
      assert.match(phone.url(), /heatmap/);
      await phone.locator('[data-test=tip]').getByRole('link', { name: 'Open these entities' }).tap();
      await phone.locator('#filter').waitFor();
      for (const [place, name] of [['overview', 'Range']]) {
        await phone.goto(`${server.console}#/${place}`);
        await phone.getByRole('group', { name }).waitFor();
      }
      await phone.goto(`${server.console}#/live`);
      await phone.getByText(/showing (all|\d+ of)/).filter({ visible: true }).first().waitFor();
      assert.deepEqual(phone.problems, []);
    } finally {
      await phone.context().close();
    }
  });
});

describe('access', () => {
  test('makes a signature that opens the table and nothing else', async () => {
    await visit('access');
    await page.getByRole('combobox', { name: 'Table', exact: true }).fill('People');
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
    const box = page.locator('[data-test=sas]');
    await box.waitFor();
    await checkAccess('access');
    const token = (await box.innerText()).trim();
    const ask = async (table) => (await fetch(`${server.table}/${table}()?${token}`, { headers: { 'x-ms-version': '2021-12-02' } })).status;
    assert.deepEqual([await ask('People'), await ask('Hostile')], [200, 403]);
  });

  test('offers names and stored policies, and signs with one', async () => {
    // A signature may not set policies; whoever owns the account may.
    const greeting = await fetch(`${server.console}api/session`);
    const { csrf } = await greeting.json();
    const set = await fetch(`${server.console}data/table/${ACCOUNT}/People?comp=acl`, { method: 'PUT', headers: { cookie: greeting.headers.get('set-cookie').split(';')[0], 'x-tavola-csrf': csrf, 'x-ms-version': '2021-12-02', accept: 'application/xml', 'content-type': 'application/xml' }, body: '<?xml version="1.0"?><SignedIdentifiers><SignedIdentifier><Id>readers</Id><AccessPolicy><Start>2020-01-01T00:00:00Z</Start><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>' });
    assert.equal(set.status, 204);
    await visit('access');
    await page.locator('#sasnames option[value=People]').waitFor({ state: 'attached' });
    await page.getByRole('combobox', { name: 'Table', exact: true }).fill('People');
    await page.getByLabel('Stored access policy').selectOption('readers');
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
    const box = page.locator('[data-test=sas]');
    await box.waitFor();
    const token = (await box.innerText()).trim();
    assert.match(token, /si=readers/);
    assert.doesNotMatch(token, /se=|sp=/);
    const ask = async (method) => (await fetch(`${server.table}/People()?${token}`, { method, headers: { 'x-ms-version': '2021-12-02' } })).status;
    assert.equal(await ask('GET'), 200);
    await page.getByLabel('Stored access policy').selectOption('');
    await page.getByLabel('Starts').fill('2099-01-01T00:00');
    await page.getByLabel('Expires').fill('2099-02-01T00:00');
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
    await until(async () => /st=2099/.test(await box.innerText().catch(() => '')), 'no start');
    await checkAccess('stored policies');
  });

  test('the name of a policy is text', async () => {
    const escaped = HOSTILE[0].replace(/&/g, '&amp;').replace(/</g, '&lt;');
    const greeting = await fetch(`${server.console}api/session`);
    const { csrf } = await greeting.json();
    const set = await fetch(`${server.console}data/table/${ACCOUNT}/Hostile?comp=acl`, { method: 'PUT', headers: { cookie: greeting.headers.get('set-cookie').split(';')[0], 'x-tavola-csrf': csrf, 'x-ms-version': '2021-12-02', accept: 'application/xml', 'content-type': 'application/xml' }, body: `<?xml version="1.0"?><SignedIdentifiers><SignedIdentifier><Id>${escaped}</Id><AccessPolicy><Expiry>2099-01-01T00:00:00Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>` });
    assert.equal(set.status, 204);
    await visit('access');
    await page.locator('#sasnames option[value=Hostile]').waitFor({ state: 'attached' });
    await page.getByRole('combobox', { name: 'Table', exact: true }).fill('Hostile');
    await page.getByLabel('Stored access policy').selectOption(HOSTILE[0]);
    await page.getByRole('button', { name: 'Sign', exact: true }).click();
    const box = page.locator('[data-test=sas]');
    await box.waitFor();
    assert.equal(new URLSearchParams((await box.innerText()).trim()).get('si'), HOSTILE[0]);
    assert.equal(await page.locator('img, iframe, object, embed').count(), 0);
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
  test('stored text is text in findings, their code and what-if', async () => {
    await client.table('Wild');
    await client.batch('Wild', Array.from({ length: 90 }, (_, index) => ({ PartitionKey: HOSTILE[index % 3].replace(/[/\\#?]/g, '_'), RowKey: `r${index}`, Value: HOSTILE[index % 7] })).filter((entity) => entity.PartitionKey === HOSTILE[0].replace(/[/\\#?]/g, '_')));
    for (let index = 0; index < 60; index++) await client.insert('Wild', { PartitionKey: `p${index}`, RowKey: HOSTILE[index % 3].replace(/[/\\#?]/g, '_'), Value: `${HOSTILE[index % 7]}${index}` });
    for (let round = 0; round < 40; round++) await client.query('Wild', `Value eq '${`${HOSTILE[round % 7]}${round}`.replace(/'/g, "''")}'`);
    await visit(`table/${ACCOUNT}/Wild`);
    await until(async () => (await rowCount()) > 0, 'no rows');
    await visit('advisor');
    const card = page.locator('.card', { hasText: 'Wild' }).filter({ has: page.getByRole('button', { name: 'Try it on a copy' }) }).first();
    await card.waitFor();
    await card.getByRole('button', { name: 'Try it on a copy' }).click();
    await card.locator('.tried').waitFor();
    await card.getByRole('button', { name: /Create index|Change keys/ }).click();
    const dialog = page.getByRole('dialog');
    for (const language of ['C#', 'Python']) { await dialog.getByRole('button', { name: language }).click(); assert.ok((await dialog.locator('[data-test=code]').innerText()).length > 100); }
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.equal(await page.locator('img, iframe, object, embed').count(), 0);
  });

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
      if (place.startsWith('container')) {
        await page.getByRole('button', { name: HOSTILE[0] }).click();
        await page.getByRole('complementary', { name: 'Blob' }).getByText(HOSTILE[0], { exact: true }).last().waitFor();
      }
      if (place.startsWith('heatmap')) {
        // Ranges follow the traffic: here each key has one of its own.
        await client.point('Hostile', 'any', 'r');
        await page.route('**/api/heat?**', async (route) => {
          const answer = await route.fetch();
          const view = await answer.json();
          const keys = HOSTILE.map(keyOf);
          const rows = keys.map((key, index) => ({ label: key, group: index < 4 ? key.slice(0, 3) : '', from: { partition: key, row: index % 2 ? key : '' }, to: { partition: keys[(index + 1) % keys.length], row: key }, keys: 1, is_part: index % 3 === 0 }));
          const cells = rows.map((_, row) => ({ row, column: 0, value: 10, estimated: false }));
          await route.fulfill({ response: answer, json: { ...view, rows, cells, marks: [] } });
        });
        await page.reload();
        await page.locator('.hm canvas').focus();
        const seen = new Set();
        for (let row = 0; row < HOSTILE.length; row++) {
          await page.keyboard.press(row ? 'ArrowDown' : 'ArrowUp');
          await page.locator('[data-test=tip]').waitFor();
          seen.add(await page.locator('[data-test=tip] bdi').first().textContent());
          assert.equal(await page.evaluate(() => window.pwned), undefined, place);
        }
        assert.deepEqual([...seen].sort(), HOSTILE.map(keyOf).sort());
        assert.equal(await page.locator('img, iframe, object, embed').count(), 0, place);
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
    await until(async () => (await ground()) !== light, 'the page stays light');
    await checkAccess('dark overview');
  });

  test('a phone has a drawer, and nothing is wider than the screen', async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    for (const place of ['overview', `table/${ACCOUNT}/People`, `table/${ACCOUNT}/Hostile`, `queue/${ACCOUNT}/jobs`, `container/${ACCOUNT}/files`, `heatmap/${ACCOUNT}/People`, 'advisor', 'live', 'access']) {
      await visit(place);
      // For what the page still fetches. On a slow machine less of it is there, and nothing else changes.
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
    await other.restart();
    await page.getByText(/^Healthy · up/).waitFor();
    await until(async () => /answers reads/.test(await page.locator('[aria-label="Store health"]').innerText()), 'the health stays stale');
    await page.getByRole('button', { name: 'New table' }).last().click();
    const dialog = page.getByRole('dialog', { name: 'New table' });
    await dialog.getByLabel('Name').fill('Again');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await shown('No entities yet');
    await other.stop();
    page.problems.length = 0;
  });
});
