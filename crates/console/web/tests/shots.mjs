// Takes the screenshots of every page, light, dark and on a phone: `node shots.mjs FOLDER`.
// The console is the real one, with generated requests (`examples/demo.rs`) and what is put in here.

import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { launch, openPage, until } from './support.mjs';

const [folder] = process.argv.slice(2);
const only = process.argv[3] ? new RegExp(process.argv[3]) : /./;
mkdirSync(folder, { recursive: true });
const ACCOUNT = 'devstoreaccount1';
const demos = [];
/** Starts the demo with these arguments, and gives its address. */
function startDemo(...more) {
  const demo = spawn(process.env.TAVOLA_DEMO, ['0', ...more], { stdio: ['ignore', 'pipe', 'inherit'] });
  demos.push(demo);
  return new Promise((resolve, reject) => {
    demo.stdout.on('data', (text) => resolve(String(text).trim()));
    demo.on('exit', () => reject(new Error('the demo ended')));
  });
}

// ---- what there is to see ----

/** The console that takes what follows, and the session with it. */
let session = { url: '', cookie: '', csrf: '' };
async function open(url) {
  const greeting = await fetch(`${url}api/session`);
  session = { url, cookie: greeting.headers.get('set-cookie').split(';')[0], csrf: (await greeting.json()).csrf };
}
async function send(service, method, path, body, headers = {}) {
  const { url, cookie, csrf } = session;
  const answer = await fetch(`${url}data/${service}/${ACCOUNT}/${path}`, { method, body, headers: { cookie, 'x-tavola-csrf': csrf, 'x-ms-version': '2021-12-02', accept: 'application/json', 'content-type': 'application/json', ...headers } });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return text;
}
async function fill(table, entities) {
  await send('table', 'POST', 'Tables', JSON.stringify({ TableName: table }));
  const groups = Map.groupBy?.(entities, (entity) => entity.PartitionKey) ?? entities.reduce((map, entity) => map.set(entity.PartitionKey, [...(map.get(entity.PartitionKey) ?? []), entity]), new Map());
  for (const group of groups.values()) {
    for (let at = 0; at < group.length; at += 100) {
      const parts = group.slice(at, at + 100).map((entity) => `--c\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nPOST http://x/${ACCOUNT}/${table} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json\r\nPrefer: return-no-content\r\n\r\n${JSON.stringify(entity)}\r\n`).join('');
      await send('table', 'POST', '$batch', `--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n${parts}--c--\r\n--b--\r\n`, { 'content-type': 'multipart/mixed; boundary=b' });
    }
  }
}
const many = (count, make) => Array.from({ length: count }, (_, index) => make(index));
const pad = (number, width = 6) => String(number).padStart(width, '0');
const first = ['Giulia', 'Marco', 'Ada', 'Piotr', 'Noor', 'Chiara', 'Tomás', 'Elena', 'Jonas', 'Ines', 'Samir', 'Olga', 'Luca', 'Hana'];
const last = ['Lastella', 'Lasalle', 'Laskaris', 'Last', 'Lastrada', 'Laster', 'Lastowska', 'Lassen', 'Laschi', 'Lastra', 'Lasker', 'Rossi', 'Moretti'];
const employee = (department) => (index) => ({
  PartitionKey: department, RowKey: index % 31 === 6 ? `contractor-${pad(index, 4)}` : `emp-${pad(4102 + index * 7)}`, FirstName: first[index % 14], ...(index % 31 === 6 ? {} : { LastName: index % 23 === 3 ? '' : last[index % 13] }), City: index % 3 ? 'Turin' : 'Rome',
  ...(index % 12 === 5 ? {} : { Salary: index % 9 === 2 ? 52400.5 : index % 31 === 6 ? 'n/a' : 36000 + ((index * 731) % 24000) }),
  ...(index % 7 === 3 ? {} : { 'HireDate@odata.type': 'Edm.DateTime', HireDate: `20${pad(10 + (index % 13), 2)}-0${1 + (index % 9)}-1${index % 10}T00:00:00Z` }),
  Active: index % 5 !== 4, ...(index % 4 === 1 ? {} : { 'ManagerId@odata.type': 'Edm.Guid', ManagerId: index % 2 ? '7c1e61f0-5a1e-4c0c-9d5e-6f1b8be3a04f' : '02bd61f0-5a1e-4c0c-9d5e-6f1b8be391c7' }), 'Badge@odata.type': 'Edm.Int64', Badge: index === 0 ? '9007199254740993' : String(118000 + index * 17),
});
const queue = async (name, texts) => {
  await send('queue', 'PUT', name);
  for (const [text, query = ''] of texts) await send('queue', 'POST', `${name}/messages${query}`, `<QueueMessage><MessageText>${text.replace(/&/g, '&amp;').replace(/</g, '&lt;')}</MessageText></QueueMessage>`, { 'content-type': 'application/xml' });
};
const order = (index) => JSON.stringify({ type: 'OrderPlaced', orderId: `ord-20261115-${7731 + index}`, customer: 'c-10482', lines: [{ sku: 'TV-114', qty: 2 }, { sku: 'TV-209', qty: 1 }], total: 184.5, currency: 'EUR' });
/** Puts in what every demo shows. */
async function fillAll() {
  await fill('Employees', ['Legal', 'Retail', 'Sales'].flatMap((department) => many(420, employee(department))));
  await fill('Activity', ['tenant|adatum', 'tenant|contoso', 'tenant|fabrikam', 'user|a001', 'user|b002', 'acct|0412'].flatMap((key) => many(300, (index) => ({ PartitionKey: key, RowKey: `evt-${pad(index)}`, Kind: index % 2 ? 'click' : 'view', Payload: 'x'.repeat(180) }))));
  await fill('Telemetry', many(2400, (index) => ({ PartitionKey: `2026-11-15T${pad(index % 24, 2)}`, RowKey: `dev-${pad(index, 4)}`, Value: index / 3, Unit: 'W', Raw: 'y'.repeat(240) })));
  await fill('Orders', many(900, (index) => ({ PartitionKey: `c-${10482 + (index % 40)}`, RowKey: `ord-${pad(index)}`, Total: index * 1.5, Currency: 'EUR' })));
  await fill('Invoices', many(240, (index) => ({ PartitionKey: '2026-Q4', RowKey: String(index + 1), Customer: `c-${10482 + (index % 40)}`, Total: index })));
  await fill('Sessions', many(180, (index) => ({ PartitionKey: 's', RowKey: `8c1f${pad(index, 4)}`, User: `u${index}` })));
  await queue('order-events', [...many(9, (index) => [order(index)]), [order(10), '?visibilitytimeout=1740'], [order(11), '?visibilitytimeout=6900'], [order(12), '?messagettl=900']]);
  await send('queue', 'GET', 'order-events/messages?numofmessages=2&visibilitytimeout=45');
  await send('queue', 'GET', 'order-events/messages?numofmessages=2&visibilitytimeout=400');
  await queue('order-events-poison', many(3, (index) => [JSON.stringify({ error: index < 2 ? 'KeyError: shippingAddress.zip' : 'not Base64: unexpected byte 0x7b at 0', orderId: index })]));
  await queue('thumbnails', []);
  await queue('webhooks', many(40, (index) => [`hook ${index}`]));
  for (const container of ['exports', 'photos']) await send('blob', 'PUT', `${container}?restype=container`);
  for (const [name, size, type] of [['employees/emp-004183.jpg', 50_400, 'image/jpeg'], ['employees/emp-004190.jpg', 41_200, 'image/jpeg'], ['badges/front.png', 18_900, 'image/png'], ['team-2026.jpg', 812_000, 'image/jpeg'], ['readme.md', 1_240, 'text/markdown'], ['floor-plan.pdf', 220_000, 'application/pdf']]) {
    await send('blob', 'PUT', `photos/${name}`, Buffer.alloc(size, 1), { 'x-ms-blob-type': 'BlockBlob', 'x-ms-blob-content-type': type, 'content-type': 'application/octet-stream' });
  }
}

// ---- the pages ----

const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const filter = "PartitionKey eq 'Sales' and City eq 'Turin'";
/** Trends and figures of the store are kept by the page: it stays open for so long. */
const WARM_MS = 60_000;
/** Opens a scan that is near the top, so that the chart above stays in the picture. Runs in the page. */
const openScan = (rows) => { const row = rows.slice(0, 7).find((one) => one.innerText.includes('partition scan')); row?.click(); return Boolean(row); };
/** Name, address, what happens before the picture, and where: the demo, and which of light, dark and 390. */
const pages = [
  ['overview', 'overview', async (page) => { await page.getByText('answers reads').waitFor(); await wait(WARM_MS); }],
  ['table', `table/${ACCOUNT}/Employees?filter=${encodeURIComponent(filter)}`, async (page) => {
    await page.locator('.grid tbody tr').nth(6).click();
    const editor = page.getByRole('complementary', { name: 'Edit entity' });
    await editor.getByLabel('Value of FirstName').fill('Elena Maria');
    await page.locator('#filter').click();
    await page.keyboard.press('End');
    await page.keyboard.type(' and Last');
    await page.getByRole('option').first().waitFor().catch(() => {});
    await wait(600);
  }],
  ['table-error', `table/${ACCOUNT}/Employees?filter=${encodeURIComponent(`${filter} and Last eq`)}`, async (page) => { await page.getByRole('alert').first().waitFor(); await wait(500); }, { only: ['light'] }],
  ['queue', `queue/${ACCOUNT}/order-events`, async (page) => { await page.getByRole('option', { name: /hidden/ }).first().click(); await wait(500); }],
  ['container', `container/${ACCOUNT}/photos`, async (page) => { await page.getByRole('button', { name: 'team-2026.jpg' }).click(); await wait(500); }],
  ['heatmap', `heatmap/${ACCOUNT}/Activity`, async (page, size) => {
    await page.getByRole('button', { name: '24 h' }).filter({ visible: true }).click();
    const map = page.locator('.hm canvas').first();
    await map.waitFor();
    await wait(2500);
    const box = await map.boundingBox();
    if (size.width > 800) await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.62);
    await wait(600);
  }],
  ['advisor', 'advisor', async (page) => { await page.locator('.card').first().waitFor(); await wait(1000); }],
  ['advisor-whatif', 'advisor', async (page) => {
    const card = page.locator('.card').filter({ has: page.getByRole('button', { name: 'Try it on a copy' }) }).first();
    await card.getByRole('button', { name: 'Try it on a copy' }).click();
    await card.locator('.tried').waitFor();
    await card.evaluate((element) => element.scrollIntoView({ block: 'start' }));
    await wait(500);
  }],
  ['advisor-index', 'advisor', async (page) => { await page.getByRole('button', { name: 'Create index' }).first().click(); await page.locator('[data-test=code]').waitFor(); await wait(500); }, { only: ['light'] }],
  ['live', 'live', async (page, size) => { await page.locator('tr[data-id]').nth(20).waitFor(); await wait(3000); if (size.width > 800) await until(() => page.locator('tr[data-id]').evaluateAll(openScan), 'no scan is near the top'); await wait(500); }],
  ['access', 'access', async (page) => { await page.getByRole('combobox', { name: 'Table', exact: true }).fill('Orders'); await page.getByRole('button', { name: 'Sign', exact: true }).click(); await page.locator('[data-test=sas]').waitFor(); await wait(300); }],
  ['cluster', 'cluster?table=Activity&partition=tenant%7Ccontoso', async (page) => {
    await page.locator('[data-test=owner] b').waitFor();
    // The partitions are counted once the tables were sampled.
    await page.getByRole('region', { name: 'Servers by name' }).getByText('%').first().waitFor();
    await wait(6000);
  }, { of: '--cluster' }],
  ['signin', '', async (page) => { await page.getByLabel('Account', { exact: true }).fill('production'); await page.getByLabel('Key', { exact: true }).fill('not the key'); await wait(300); }, { of: '--sign-in' }],
];
const SIZES = [['light', { width: 1280, height: 800 }, 'light'], ['dark', { width: 1280, height: 800 }, 'dark'], ['390', { width: 390, height: 844 }, 'light']];

const browser = await launch();
/** Takes one picture, of a page of its own. */
async function shoot(url, [name, hash, ready], [suffix, viewport, colorScheme]) {
  const page = await openPage(browser, { viewport, colorScheme });
  await page.goto(`${url}#/${hash}`);
  await page.getByRole('heading', { level: 1 }).waitFor();
  await ready(page, viewport);
  const path = join(folder, `${name}-${suffix}.png`);
  await page.screenshot({ path });
  // Fewer colours, where the tool is installed: a third of the bytes.
  spawnSync('pngquant', ['--force', '--skip-if-larger', '--ext', '.png', '128', path]);
  if (page.problems.length) console.log(name, suffix, page.problems);
  await page.context().close();
}
const isWanted = ([name, , , { only: sizes } = {}], [suffix]) => only.test(`${name}-${suffix}`) && (!sizes || sizes.includes(suffix));
try {
  for (const of of ['', '--cluster', '--sign-in']) {
    const taken = pages.filter((page) => (page[3]?.of ?? '') === of).flatMap((page) => SIZES.filter((size) => isWanted(page, size)).map((size) => [page, size]));
    if (!taken.length) continue;
    const url = await startDemo(...(of ? [of] : []));
    if (of !== '--sign-in') { await open(url); await fillAll(); }
    // Overviews warm up together, beside the others.
    const isSlow = ([[name]]) => name === 'overview';
    const warming = Promise.all(taken.filter(isSlow).map(([page, size]) => shoot(url, page, size)));
    for (const [page, size] of taken.filter((one) => !isSlow(one))) await shoot(url, page, size);
    await warming;
  }
} finally {
  await browser.close();
  for (const demo of demos) demo.kill();
}
