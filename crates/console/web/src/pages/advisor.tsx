// What the traffic shows to be costly or wrong, ranked, with the keys that fix it.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import * as api from '../api';
import { allFindings, attempt, attemptFirst, findings, findingsError, ignore, ignored, loadFindings, reportOf, subject, unignore, type Finding, type Gain, type Hot, type KeyPart, type Report } from '../advice';
import { place, query, recipe, type Language } from '../recipe';
import { bytes, ms, PLAN_CLASS, PLAN_NAMES, short, whole } from '../format';
import { here, link, resources, say } from '../store';
import { Chip, Copy, Dialog, Empty, ErrorNote, FindingTitle, Icon, percent, Segments } from '../ui';
import { Shell } from '../shell';
import { useState } from 'preact/hooks';

interface Cost { currency: string; default_prices_of: string | null; total_per_month: number; observed_hours: number; tables: { account: string; table: string; storage_per_month: number; requests_per_month: number; shapes: { shape: string; requests: number; cost_per_month: number; wasted_per_month: number }[] }[] }
const cost = signal<Cost | null>(null);

export function AdvisorPage() {
  const [scope, setScope] = useState('');
  useEffect(() => {
    const load = () => { void loadFindings(); api.get<Cost>('/api/cost').then((found) => (cost.value = found), () => {}); };
    load();
    const timer = setInterval(load, 15_000);
    return () => clearInterval(timer);
  }, []);
  // The list is loaded again and again; only what is ranked first is tried.
  const first = (findings.value ?? []).slice(0, 8).map((finding) => finding.id).join('\n');
  useEffect(() => { let over = false; void attemptFirst(findings.value ?? [], () => over); return () => { over = true; }; }, [first]);
  const wanted = here.value.query.get('at');
  useEffect(() => { if (wanted) document.getElementById(`f-${wanted}`)?.scrollIntoView({ block: 'start' }); }, [wanted, findings.value === null]);
  const all = findings.value ?? [];
  const hidden = (allFindings.value ?? []).filter((finding) => ignored.value.has(finding.id));
  const tables = [...new Set(all.map((finding) => finding.table))].filter(Boolean);
  const shown = all.filter((finding) => !scope || finding.table === scope);
  const scanned = all.reduce((sum, finding) => sum + finding.rows_scanned, 0);
  const returned = all.reduce((sum, finding) => sum + finding.rows_returned, 0);
  const price = cost.value;
  const quiet = (resources.value?.tables ?? []).map((table) => table.name).filter((name) => !(allFindings.value ?? []).some((finding) => finding.table.toLowerCase() === name.toLowerCase()));
  const actions = tables.length > 1 ? <select class="inp sm scope" aria-label="Scope" value={scope} onChange={(event) => setScope(event.currentTarget.value)}><option value="">All tables</option>{tables.map((table) => <option key={table} value={table}>{table}</option>)}</select> : undefined;
  return (
    <Shell title="Advisor" label="Advisor" actions={actions}>
      <div class="sumline"><span><b>{findings.value ? all.length : '–'}</b> {all.length === 1 ? 'finding' : 'findings'}</span>
        {scanned > 0 && <span><b>{percent(Math.max(0, 1 - returned / scanned))}</b> of the rows they read are thrown away</span>}
        {price && price.total_per_month > 0 && <span><b>{price.currency} {price.total_per_month.toFixed(price.total_per_month < 10 ? 2 : 0)}</b> a month{price.default_prices_of ? ', by default prices' : ''}</span>}
        <span class="grow" />{price && <span class="small">From {price.observed_hours < 1 ? `${Math.max(1, Math.round(price.observed_hours * 60))} min` : `${short(price.observed_hours)} h`} of requests</span>}</div>
      {findingsError.value && <ErrorNote error={findingsError.value}><button type="button" class="btn sm" onClick={loadFindings}>Try again</button></ErrorNote>}
      <div class="adv">
        {shown.map((finding, index) => <Card key={finding.id} finding={finding} rank={index + 1} currency={price?.currency ?? '$'} />)}
        {findings.value && !all.length && !resources.value?.tables.length && <Empty icon="adv" title="No traffic yet">The advisor reads the requests that clients send to this server.</Empty>}
        {findings.value && quiet.length > 0 && (
          <section class="panel quiet" aria-label="No findings"><span class="ok"><Icon name="check" /></span><div class="grow"><b>Nothing to improve in {quiet.slice(0, 6).map((name, index) => <span key={name}>{index > 0 && ', '}<code>{name}</code></span>)}{quiet.length > 6 && ` and ${quiet.length - 6} more`}</b><div class="small dim">Their requests are point reads, short ranges and writes that spread.</div></div></section>
        )}
        {hidden.length > 0 && (
          <section class="panel" aria-label="Ignored findings"><header><h2>Ignored</h2><span class="pill">{hidden.length}</span><span class="more dim small">kept in this browser</span></header>
            {hidden.map((finding) => <div class="find-row ignoredrow" key={finding.id}><div class="grow"><div><FindingTitle title={finding.title} shape={finding.shape} /></div><p><code>{subject(finding)}</code> · {finding.guide_section}</p></div><button type="button" class="btn sm" onClick={() => unignore(finding.id)}>Show again</button></div>)}</section>
        )}
        {price && price.tables.length > 0 && <CostTable price={price} />}
      </div>
    </Shell>
  );
}

const Parts = ({ parts }: { parts: KeyPart[] }) => <span>{parts.map((part, index) => (part.new ? <mark key={index}>{part.text}</mark> : <bdi key={index}>{part.text}</bdi>))}</span>;

/** The parts of a line of keys. Of a query only the values are new, and not those that keys have now. */
function asked(sample: Finding['keys'][number], side: 'partition' | 'row', finding: Finding): KeyPart[] {
  if (sample.label !== 'query') return sample[side];
  const now = finding.keys.find((one) => one.label === 'now')?.[side].map((part) => part.text).join('');
  const text = sample[side].map((part) => part.text).join('');
  // Outside of quotes are operators.
  return [...text.matchAll(/'((?:[^']|'')*)'|[^']+/g)].flatMap(([all, value]) => (value === undefined ? [{ text: all, new: false }] : [{ text: "'", new: false }, { text: value, new: value.replace(/''/g, "'") !== now }, { text: "'", new: false }])).filter((part) => part.text);
}

function Card({ finding, rank, currency }: { finding: Finding; rank: number; currency: string }) {
  const kind = finding.plan ? PLAN_CLASS[finding.plan] ?? '' : '';
  const ratio = finding.rows_returned > 0 ? finding.rows_scanned / finding.rows_returned : finding.rows_scanned;
  const whatif = finding.what_if ? `tavola whatif --account ${finding.account} --table ${finding.table} --partition '${finding.what_if.partition}' --row '${finding.what_if.row}'${finding.what_if.is_index ? ' --index' : ''}` : '';
  const tried = reportOf(finding);
  const [trying, setTrying] = useState(false);
  const [failure, setFailure] = useState('');
  const tryIt = async () => {
    setTrying(true);
    setFailure('');
    try { await attempt(finding); } catch (error) { setFailure((error as Error).message); }
    setTrying(false);
  };
  const [coding, setCoding] = useState(false);
  const example = finding.example;
  return (
    <article class="panel card" id={`f-${finding.id}`}>
      <div class="hd"><span class={`rank ${finding.severity === 'bad' ? 'bad' : finding.severity === 'warning' ? 'warn' : ''}`}>{rank}</span>
        <div class="grow"><h2><FindingTitle title={finding.title} shape={finding.shape} /></h2><p class="meta">{finding.table ? <a class="mono" href={link('table', finding.account, finding.table)}>{finding.table}</a> : <>account <code>{finding.account}</code></>}{finding.requests_per_hour >= 1 && <> · {short(finding.requests_per_hour)} times/h</>}{finding.plan && <> · <Chip kind={kind}>{PLAN_NAMES[kind] ?? finding.plan}</Chip></>}{finding.shape && !finding.title.startsWith(finding.shape) && <> · <code class="wrapany">{finding.shape}</code></>}{finding.table && <> · <a href={`${link('live')}?q=${encodeURIComponent(`table:${finding.table}`)}`}>see requests</a></>}</p></div>
        <div class="cost">{finding.cost_per_month !== null ? <><b>{currency} {finding.cost_per_month.toFixed(finding.cost_per_month < 10 ? 2 : 0)}</b>a month</> : <><b>{finding.rule.replace(/-/g, ' ')}</b>{finding.severity}</>}</div></div>
      <div class="two">
        <div><p>{finding.fact}</p><p class="advice"><b>{finding.guide_section}.</b> {finding.advice}</p>
          {finding.keys.length > 0 && <div class="keys" tabIndex={0} role="region" aria-label={`Keys now and then: ${finding.title}`}>{finding.keys.map((sample, index) => <div key={index}><span class="lb">{sample.label}</span><Parts parts={asked(sample, 'partition', finding)} /><Parts parts={asked(sample, 'row', finding)} /></div>)}</div>}
          {finding.price && <p class="small dim pricenote">{finding.price}</p>}
          {example && <><div class="sub exhead">A real request</div><div class="cs exbox"><bdi>{example.request}</bdi><Copy text={example.request} label="Copy request" /></div><p class="small dim">read {whole(example.rows_scanned)}, sent {whole(example.rows_returned)}, {ms(example.total_ms)}</p></>}</div>
        <div>
          {(finding.gains ?? []).map((gain) => <Gained key={gain.kind} gain={gain} />)}
          {tried && <Tried report={tried} own={finding.shape} />}{failure && <ErrorNote error={failure} />}
          {!tried && !finding.gains?.length && finding.rows_scanned > 0 && <><div class="sub">Rows read for rows sent</div><div class="ba"><span class="m">Rows</span><i class="b full" /><span class="v dim" title={whole(finding.rows_scanned)}>{finding.rows_scanned < 1e7 ? whole(finding.rows_scanned) : short(finding.rows_scanned)}</span><i class="a" style={{ width: `${Math.max(0.6, 100 / Math.max(1, ratio))}%` }} /><span class="v n" title={whole(finding.rows_returned)}>{finding.rows_returned < 1e7 ? whole(finding.rows_returned) : short(finding.rows_returned)}</span></div></>}
        </div>
      </div>
      <div class="acts">
        {whatif && <button type="button" class="btn pri" disabled={trying} onClick={tryIt} title="Replays the recorded requests on a copy; the table itself is not touched">{trying ? 'Trying' : 'Try it on a copy'}</button>}
        {finding.what_if && <button type="button" class="btn" onClick={() => setCoding(true)}>{finding.what_if.is_index ? 'Create index' : 'Change keys'}</button>}
        {finding.table && <a class="btn" href={link('heatmap', finding.account, finding.table)}>Open heat map</a>}
        {example && /\s(eq|ne|gt|ge|lt|le)\s/.test(example.request) && <a class="btn ghost hide-s" href={`${link('table', finding.account, finding.table)}?filter=${encodeURIComponent(example.request.replace(/^.*\$filter=/, ''))}`}>Run the example</a>}
        <span class="grow" /><button type="button" class="btn ghost" onClick={() => { ignore(finding.id); say('Ignored in this browser; it is listed below'); }}>Ignore</button>
      </div>
      {coding && <Recipe finding={finding} command={whatif} onClose={() => setCoding(false)} />}
    </article>
  );
}

const GAINS: Record<string, string> = { requests: 'Requests', bytes: 'Bytes', rows: 'Rows read', properties: 'Properties', 'refused-writes': 'Refused writes' };

/** What a fix gains that is not about keys: bars before and after, and what is assumed. */
function Gained({ gain }: { gain: Gain }) {
  const shown = (value: number) => (gain.kind === 'bytes' ? bytes(value) : value < 1e7 ? whole(value) : short(value));
  return (
    <div class="tried"><div class="sub">With the fix</div>
      <div class="ba"><span class="m">{GAINS[gain.kind] ?? gain.kind}</span><i class="b full" /><span class="v dim" title={whole(gain.before)}>{shown(gain.before)}</span><i class="a" style={{ width: `${Math.max(0.6, (100 * gain.after) / Math.max(1, gain.before))}%` }} /><span class="v n" title={whole(gain.after)}>{shown(gain.after)}</span></div>
      <p class="small dim">{gain.basis}</p></div>
  );
}

/** How to make the proposal real: the keys, and the code for them. The console changes no table by itself. */
function Recipe({ finding, command, onClose }: { finding: Finding; command: string; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>('python');
  const code = recipe(finding, language);
  const keys = finding.keys.find((sample) => sample.label === 'add' || sample.label === 'then');
  const asked = query(finding);
  const text = (parts: KeyPart[]) => parts.map((part) => part.text).join('');
  return (
    <Dialog title={finding.what_if?.is_index ? `Index for ${finding.table}` : `New keys for ${finding.table}`} class="recipe" onClose={onClose}>
      <p>{finding.advice}</p>
      <dl class="kv"><dt>Table</dt><dd><code>{place(finding)}</code></dd>
        <dt>PartitionKey</dt><dd><code>{finding.what_if?.partition}</code> <Copy text={finding.what_if?.partition ?? ''} label="Copy PartitionKey" /></dd>
        <dt>RowKey</dt><dd><code>{finding.what_if?.row}</code> <Copy text={finding.what_if?.row ?? ''} label="Copy RowKey" /></dd>
        {keys && <><dt>Example</dt><dd><code class="wrapany">{text(keys.partition)} / {text(keys.row)}</code></dd></>}
        {asked && <><dt>Query</dt><dd><code class="wrapany">{asked}</code> <Copy text={asked} label="Copy query" /></dd></>}
        <dt>Try first</dt><dd><code class="wrapany">{command}</code> <Copy text={command} label="Copy command" /></dd></dl>
      <div class="row formrow"><Segments label="Language" value={language} onPick={setLanguage} choices={[{ value: 'python', label: 'Python' }, { value: 'csharp', label: 'C#' }]} /><span class="grow" /><Copy text={code} label="Copy code" /></div>
      <pre class="code" tabIndex={0} data-test="code">{code}</pre>
    </Dialog>
  );
}

/** The measured difference: bars before and after, then each shape that changes, the finding's own without its name. */
function Tried({ report, own }: { report: Report; own: string | null }) {
  const bars: [string, number, number, (value: number) => string][] = [
    ['Rows read', report.before.rows_scanned, report.after.rows_scanned, (rows) => (rows < 1e7 ? whole(rows) : short(rows))],
    ['Size', report.before.bytes, report.after.bytes, bytes],
  ];
  const load = (name: string, before: Hot | null, after: Hot | null): typeof bars => (before || after ? [[name, before?.share ?? 0, after?.share ?? 0, percent]] : []);
  bars.splice(1, 0, ...load('Hottest', report.before.hottest, report.after.hottest), ...load('Lately', report.before.hottest_lately, report.after.hottest_lately));
  const price = report.cost;
  if (price) bars.push(['A month', price.before, price.after, (value) => money(price.currency, value)]);
  const lately = report.after.hottest_lately;
  const changed = report.shapes.filter((shape) => shape.shape === own || !shape.is_same_result || shape.plan_before !== shape.plan_after || shape.scanned_before !== shape.scanned_after);
  return (
    <div class="tried" role="status">
      <div class="sub">What if · replayed {whole(report.replayed)} real requests on a copy of {whole(report.entities)}{report.is_whole_table ? '' : '+'} entities</div>
      <div class="ba">{bars.map(([name, before, after, show], index) => { const most = Math.max(before, after, 1e-9); return [index > 0 && <span class="gap" key={`${name}g`} />, <span class="m" key={name}>{name}</span>, <i class="b" key={`${name}b`} style={{ width: `${(before / most) * 100}%` }} />, <span class="v dim" key={`${name}1`}>{show(before)}</span>, <i class="a" key={`${name}a`} style={{ width: `${Math.max(0.6, (after / most) * 100)}%` }} />, <span class="v n" key={`${name}2`}>{show(after)}</span>]; })}</div>
      {changed.slice(0, 4).map((shape) => <p class="small" key={shape.shape}>{shape.shape !== own && <><code class="wrapany">{shape.shape}</code> </>}<Chip kind={PLAN_CLASS[shape.plan_before] ?? ''}>{shape.plan_before.replace('-', ' ')}</Chip> → <Chip kind={PLAN_CLASS[shape.plan_after] ?? ''}>{shape.plan_after.replace('-', ' ')}</Chip> <span class="dim">{short(shape.scanned_before)} → {short(shape.scanned_after)} rows each</span>{!shape.is_same_result && <span class="warn"> · returns other entities than before</span>}</p>)}
      {lately && <p class="small dim">Hottest: the partition that most requests meet; lately: among the last requests alone, <code class="wrapany">{lately.key || '""'}</code> then.</p>}
      {report.collisions.count > 0 && <p class="small warn">{whole(report.collisions.count)} entities would have the keys of another: {report.collisions.examples[0]}</p>}
      {report.without_key.count > 0 && <p class="small warn">{whole(report.without_key.count)} entities would have no key: {report.without_key.examples[0]}</p>}
    </div>
  );
}

function CostTable({ price }: { price: Cost }) {
  return (
    <section class="panel" aria-label="Cost"><header><h2>What this traffic would cost</h2><span class="dim small">a month, from the observed rate{price.default_prices_of && <>, by default prices of {price.default_prices_of}: check them (<code>tavola prices</code>)</>}</span></header>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Cost by table"><table><thead><tr><th>Table</th><th class="num">Storage</th><th class="num">Requests</th><th>Dearest requests</th><th class="num">A month</th><th class="num">Of it wasted</th></tr></thead><tbody>
        {price.tables.slice(0, 20).flatMap((table) => (table.shapes.length ? table.shapes.slice(0, 3) : [null]).map((shape, index) => (
          <tr key={`${table.account}/${table.table}/${index}`}><td class="mono">{index === 0 && <a href={link('table', table.account, table.table)}>{table.table}</a>}</td><td class="num">{index === 0 && money(price.currency, table.storage_per_month)}</td><td class="num">{index === 0 && money(price.currency, table.requests_per_month)}</td>
            <td class="mono ellip shapecell" title={shape?.shape}>{shape?.shape ?? '–'}</td><td class="num">{shape && money(price.currency, shape.cost_per_month)}</td><td class={`num ${shape && shape.wasted_per_month > shape.cost_per_month / 2 ? 'warn' : 'dim'}`}>{shape && money(price.currency, shape.wasted_per_month)}</td></tr>
        )))}
      </tbody></table></div></section>
  );
}
const money = (currency: string, value: number) => `${currency} ${value >= 100 ? whole(value) : value >= 0.01 || value === 0 ? value.toFixed(2) : '< 0.01'}`;
