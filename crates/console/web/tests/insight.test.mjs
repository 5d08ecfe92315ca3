// What the console tells about traffic, in a browser: figures over time, rates of tables and queues, findings that are
// ignored or turned into code, and all of it over TLS.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { checkAccess, launch, openPage, program, startServer, storage, until } from './support.mjs';

const ACCOUNT = 'devstoreaccount1';
let server, client, browser;

before(async () => {
  server = await startServer();
  client = storage(server);
  await client.table('People');
  for (const city of ['Turin', 'Rome']) {
    await client.batch('People', Array.from({ length: 100 }, (_, index) => ({ PartitionKey: city, RowKey: `p-${String(index).padStart(4, '0')}`, Email: `${city}-${index}@contoso.com` })));
  }
  for (let index = 0; index < 20; index++) await client.query('People', `Email eq 'Rome-${index}@contoso.com'`);
  await client.queue('jobs');
  browser = await launch();
});
after(async () => { await browser?.close(); await server?.stop(); });

/** Runs a test on a page of its own, on which nothing may go wrong. */
async function withPage(act, options) {
  const page = await openPage(browser, options);
  try {
    await act(page);
    assert.deepEqual(page.problems, []);
  } finally {
    await page.context().close();
  }
}
const visit = async (page, hash, at = server) => { await page.goto(`${at.console}#/${hash}`); await page.getByRole('heading', { level: 1 }).waitFor(); };
describe('figures', () => {
  test('the range of the overview goes from a minute to a day', () => withPage(async (page) => {
    await visit(page, 'overview');
    const range = page.getByRole('group', { name: 'Range' });
    const errors = page.locator('.kpi', { hasText: 'Errors' });
    assert.equal(await range.getByRole('button', { name: '1 min' }).getAttribute('aria-pressed'), 'true');
    await errors.getByText(/in a minute/).waitFor();
    for (const [name, text] of [['15 min', 'in 15 min'], ['24 h', 'in 24 h'], ['1 h', 'in 1 h']]) {
      const asked = page.waitForResponse((answer) => /\/api\/figures\?span=/.test(answer.url()));
      await range.getByRole('button', { name }).click();
      assert.equal((await asked).status(), 200);
      await errors.getByText(text).waitFor();
      assert.equal(await range.getByRole('button', { name }).getAttribute('aria-pressed'), 'true');
    }
    // A step that has ended counts; those of a quarter take fifteen seconds.
    await range.getByRole('button', { name: '15 min' }).click();
    await until(async () => { await client.point('People', 'Turin', 'p-0001'); return Number.parseFloat(await page.locator('[data-test=requests]').innerText()) > 0; }, 'the rate stays zero');
    await checkAccess(page, 'overview with a range');
  }));

  test('a table shows how long its requests take', () => withPage(async (page) => {
    await visit(page, 'overview');
    const row = page.getByRole('row', { name: /^People/ });
    await until(async () => { await client.point('People', 'Turin', 'p-0001'); return /\d (ms|µs|s)\b/.test(await row.innerText()); }, 'no p99');
    assert.deepEqual((await page.getByRole('region', { name: 'Tables by size' }).getByRole('columnheader').allInnerTexts()).slice(-2), ['p99', 'Plan mix']);
  }));

  test('a queue shows what goes in and out', () => withPage(async (page) => {
    await visit(page, `queue/${ACCOUNT}/jobs`);
    const rates = page.locator('[data-test=rates]');
    assert.match(await rates.innerText(), /^0 \/ 0/);
    for (let index = 0; index < 30; index++) await client.put('jobs', `message ${index}`);
    const got = (await client.need('queue', 'GET', 'jobs/messages?numofmessages=32')).text;
    const one = (tag) => [...got.matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, 'g'))].map((match) => match[1]);
    const [ids, receipts] = [one('MessageId'), one('PopReceipt')];
    for (let index = 0; index < 12; index++) await client.need('queue', 'DELETE', `jobs/messages/${ids[index]}?popreceipt=${encodeURIComponent(receipts[index])}`);
    const numbers = async () => (await rates.innerText()).split('/').map(Number.parseFloat);
    await until(async () => { const [into, out] = await numbers(); return out > 0 && into > out; }, 'the rates are not those of the messages');
    await checkAccess(page, 'queue rates');
  }));
});

describe('accounts', () => {
  test('each account of the session shows what it holds', async () => {
    const both = await startServer('--account', 'first:Zmlyc3Qga2V5', '--account', 'second:c2Vjb25kIGtleQ==');
    try {
      await withPage(async (page) => {
        await page.goto(both.console);
        await page.getByLabel('Account', { exact: true }).fill('first');
        await page.getByLabel('Key', { exact: true }).fill('Zmlyc3Qga2V5');
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
        await page.goto(`${both.console}#/access`);
        const open = page.getByRole('region', { name: 'Open another account' });
        await open.getByLabel(/^Account;/).fill('second');
        await open.getByLabel('Key').fill('c2Vjb25kIGtleQ==');
        await open.getByRole('button', { name: 'Open' }).click();
        await page.getByRole('button', { name: 'second' }).first().waitFor();
        // The account at hand is the first; the other one gets a table and a blob behind the page's back.
        const greeting = await page.evaluate(async () => (await fetch('/api/session')).json());
        const put = (method, path, body, headers) => page.evaluate(async ([method_, path_, body_, headers_]) => (await fetch(path_, { method: method_, body: body_, headers: headers_ })).status, [method, path, body, { 'x-tavola-csrf': greeting.csrf, 'x-ms-version': '2021-12-02', accept: 'application/json', 'content-type': 'application/json', ...headers }]);
        assert.equal(await put('POST', '/data/table/second/Tables', '{"TableName":"Held"}'), 201);
        assert.equal(await put('POST', '/data/table/second/Held', JSON.stringify({ PartitionKey: 'a', RowKey: 'r', Text: 'x'.repeat(2000) })), 201);
        assert.equal(await put('PUT', '/data/blob/second/files?restype=container'), 201);
        assert.equal(await put('PUT', '/data/blob/second/files/one', 'y'.repeat(3000), { 'x-ms-blob-type': 'BlockBlob' }), 201);
        await visit(page, 'overview', both);
        const rows = page.getByRole('region', { name: 'Accounts with size and rate' }).locator('tbody');
        await until(async () => /first\s+0 B\b/.test(await rows.innerText()) && /second\s+7\.\d kB\s/.test(await rows.innerText()), 'an account has no size');
        await checkAccess(page, 'two accounts');
      });
    } finally {
      await both.stop();
    }
  });
});

describe('containers', () => {
  test('the tree counts blobs', () => withPage(async (page) => {
    await client.container('files');
    for (const name of ['a', 'b/c', 'b/d']) await client.blob(`files/${name}`, 'text');
    await visit(page, 'overview');
    const leaf = page.getByRole('navigation', { name: 'Resources' }).or(page.locator('.tree')).getByRole('link', { name: /^files/ });
    await until(async () => { await page.reload(); await leaf.first().waitFor(); return /files\s*3/.test(await leaf.first().innerText()); }, 'the blobs are not counted');
  }));
});

describe('findings', () => {
  test('an ignored finding stays ignored, and comes back when it is asked for', () => withPage(async (page) => {
    await visit(page, 'advisor');
    const card = page.locator('.card', { hasText: 'Email eq ?' });
    await card.waitFor();
    await card.getByRole('button', { name: 'Ignore' }).click();
    await until(async () => (await page.locator('.card', { hasText: 'Email eq ?' }).count()) === 0, 'it is still there');
    await page.reload();
    const list = page.getByRole('region', { name: 'Ignored findings' });
    await list.getByText('Email eq ?').waitFor();
    assert.equal(await page.locator('.card', { hasText: 'Email eq ?' }).count(), 0);
    assert.equal(await page.getByRole('navigation').getByTitle(/findings/).count(), 0, 'the number of findings has gone');
    await checkAccess(page, 'ignored findings');
    await list.getByRole('button', { name: 'Show again' }).click();
    await card.waitFor();
    await page.reload();
    await card.waitFor();
  }));

  test('a finding about the account names the account, and has no link without a name', () => withPage(async (page) => {
    await page.route('**/api/findings', async (route) => {
      const answer = await route.fetch();
      const { findings } = await answer.json();
      const hot = { id: `hot-account/${ACCOUNT}`, rule: 'hot-account', severity: 'bad', title: 'The account takes 21,000 requests a second', fact: 'It was beyond the promise for 9 s.', pattern: '', guide_section: 'Scalability targets', advice: 'Spread the tables.', price: '', account: ACCOUNT, table: '', shape: null, plan: null, example: null, keys: [], gains: [{ kind: 'requests', before: 500, after: 5, basis: 'in transactions of up to 100 <b>entities</b>' }], what_if: null, requests_per_hour: 0, rows_scanned: 0, rows_returned: 0, weight: 0, cost_per_month: null };
      await route.fulfill({ response: answer, json: { findings: [hot, ...findings] } });
    });
    await page.route('**/api/heat?**', async (route) => {
      const answer = await route.fetch();
      const view = await answer.json();
      view.marks = [{ kind: 'hot', row_from: 0, row_to: 0, column_from: 1, column_to: 3, text: 'One range takes it all.', path: [] }];
      await route.fulfill({ response: answer, json: view });
    });
    await visit(page, 'overview');
    await page.getByRole('region', { name: 'Advisor' }).getByRole('link', { name: /The account takes/ }).getByText(ACCOUNT).waitFor();
    await checkAccess(page, 'overview with a finding about the account');
    await visit(page, 'advisor');
    const card = page.locator('.card', { hasText: 'The account takes' });
    await card.locator('.meta').getByText(ACCOUNT).waitFor();
    assert.equal(await card.getByRole('link').count(), 0, 'it links to a table that it does not name');
    assert.match(await card.locator('.ba').innerText(), /Requests\s+500\s+5$/);
    await card.getByText('in transactions of up to 100 <b>entities</b>').waitFor();
    await page.locator('.card', { hasText: 'Email eq ?' }).getByRole('link', { name: 'Open heat map' }).waitFor();
    assert.deepEqual((await page.getByLabel('Scope').locator('option').allInnerTexts().catch(() => [])).filter((text) => !text.trim()), []);
    await checkAccess(page, 'a finding about the account');
    await card.getByRole('button', { name: 'Ignore' }).click();
    await page.getByRole('region', { name: 'Ignored findings' }).getByText(ACCOUNT).waitFor();
    await page.getByRole('button', { name: 'Show again' }).click();
    await client.point('People', 'Turin', 'p-0001');
    await visit(page, `heatmap/${ACCOUNT}/People`);
    await until(async () => (await page.getByRole('link', { name: 'Spread it' }).getAttribute('href')) === `#/advisor?at=${encodeURIComponent(`hot-account/${ACCOUNT}`)}`, 'the mark does not lead to the finding');
  }));

  test('a proposal becomes code that makes its keys', () => withPage(async (page) => {
    await visit(page, 'advisor');
    await page.locator('.card', { hasText: 'Email eq ?' }).getByRole('button', { name: 'Create index' }).click();
    const dialog = page.getByRole('dialog', { name: 'Index for People' });
    const code = dialog.locator('[data-test=code]');
    await checkAccess(page, 'code of a proposal');
    await dialog.getByRole('button', { name: 'Copy code' }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, (await code.innerText()).replace(/\u00a0/g, ' '));
    const keys = `import collections, re, sys, types
sys.modules['azure'] = sys.modules['azure.data'] = types.ModuleType('azure')
sys.modules['azure.data.tables'] = types.SimpleNamespace(TableServiceClient=None, EntityProperty=collections.namedtuple('EntityProperty', 'value edm_type'))
exec(sys.stdin.read().split('service = ')[0])
made = index_of({'PartitionKey': 'Rome', 'RowKey': 'p-0007', 'Email': "o'neil@contoso.com"})
print(made['PartitionKey'], made['RowKey'], made['Email'])
print(index_of({'PartitionKey': 'Rome', 'RowKey': 'r', 'Email': EntityProperty(5000000000, 'Edm.Int64')})['PartitionKey'], index_of({'PartitionKey': 'Rome', 'RowKey': 'r', 'Email': True})['PartitionKey'])`;
    const printed = execFileSync('python3', ['-c', keys], { input: copied, encoding: 'utf8' });
    assert.equal(printed.trim(), "Email_o'neil@contoso.com Rome_p-0007 o'neil@contoso.com\nEmail_5000000000 Email_true");
    execFileSync('python3', ['-c', 'import ast, sys; ast.parse(sys.stdin.read())'], { input: copied });
    assert.match(copied, /query_entities\("PartitionKey eq 'Email_Rome-\d+@contoso.com'"\)/);
    await dialog.getByRole('button', { name: 'C#' }).click();
    assert.match(await code.innerText(), /PartitionKey = "Email_" \+ Text\(entity\["Email"\]\),/);
    assert.match(await code.innerText(), /new TableClient\(connectionString, "PeopleByEmail"\)/);
    await page.keyboard.press('Escape');
    await until(async () => (await dialog.count()) === 0, 'the dialog stays');
  }));
});

describe('cost', () => {
  test('is reckoned with the prices of the server', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tavola-prices-'));
    const file = join(folder, 'prices.toml');
    writeFileSync(file, 'currency = "CHF"\nreads_10k = 5000.0\n');
    const priced = await startServer('--prices', file);
    try {
      const own = storage(priced);
      await own.table('People');
      for (let round = 0; round < 20; round++) await own.query('People', `Email eq '${round}'`);
      await withPage(async (page) => {
        await page.goto(`${priced.console}#/advisor`);
        await page.locator('.sumline').getByText(/CHF [\d,]+ a month$/).waitFor();
        await page.getByRole('region', { name: 'Cost by table' }).getByText(/CHF \d/).first().waitFor();
        assert.equal(await page.getByText('default prices').count(), 0);
      });
    } finally {
      await priced.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe('tls', () => {
  test('with a certificate the same port takes a browser over TLS', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tavola-cert-'));
    execFileSync(program, ['cert', '--out', folder]);
    const secure = await startServer('--tls-cert', join(folder, 'cert.pem'), '--tls-key', join(folder, 'key.pem'));
    try {
      await withPage(async (page) => {
        const url = secure.console.replace(/^http:/, 'https:');
        await page.goto(url);
        await page.getByRole('heading', { name: 'Overview', level: 1 }).waitFor();
        await page.getByText('answers reads').waitFor();
        assert.equal(await page.evaluate(() => location.protocol), 'https:');
        const [cookie] = (await page.context().cookies()).filter((one) => one.name.startsWith('tavola_console'));
        assert.deepEqual([cookie.secure, cookie.httpOnly, cookie.sameSite], [true, true, 'Strict']);
        // Whoever comes without TLS on this machine has a session of their own.
        await page.goto(secure.console);
        await page.getByText('answers reads').waitFor();
        assert.equal(await page.evaluate(() => location.protocol), 'http:');
      }, { ignoreHTTPSErrors: true });
    } finally {
      await secure.stop();
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
