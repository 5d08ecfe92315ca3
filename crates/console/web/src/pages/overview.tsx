// The start page: live figures, tables, findings, how to connect, store health.

import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import {
  account, chooseAccount, figures, health, link, loadResources, loadServer, past, resources, resourcesError, server, session, streamLost, type Connection,
  type Figures as FigureSet, type Health,
} from '../store';
import { bytes, ms, short, whole } from '../format';
import { Copy, Empty, ErrorNote, FindingTitle, Icon, Meter, PlanMix, Segments, Spark } from '../ui';
import { Create, Shell } from '../shell';
import { findings, loadFindings, subject } from '../advice';

const REFRESH_MS = 20_000;

export function Overview() {
  useEffect(() => {
    const refresh = () => { void loadResources(); void loadServer().catch(() => {}); void loadFindings(); };
    refresh();
    const timer = setInterval(refresh, REFRESH_MS);
    return () => clearInterval(timer);
  }, [account.value]);
  return (
    <Shell title="Overview" label="Overview" actions={<Range class="hide-s" />}>
      <Range class="only-s full underbar" />
      <Figures />
      <div class="ov">
        <div class="col"><Tables /><Findings /><Queues /><Containers /></div>
        <div class="col"><Connect /><StoreHealth /><Accounts /></div>
      </div>
      <Storage />
    </Shell>
  );
}

const Range = ({ class: extra }: { class: string }) => <Segments class={extra} label="Range" value={span.value} onPick={(picked) => (span.value = picked)} choices={SPANS.map(({ value, label }) => ({ value, label }))} />;

/** For how long the figures above are, and how often they are asked for; those of a minute come with the stream. */
const SPANS = [{ value: 'minute', label: '1 min', every: 0 }, { value: 'quarter', label: '15 min', every: 5000 }, { value: 'hour', label: '1 h', every: 15_000 }, { value: 'day', label: '24 h', every: 60_000 }] as const;
type Span = (typeof SPANS)[number]['value'];
const span = signal<Span>('minute');

/** The figures of the span: of the stream, or asked for again and again. */
function useFigures() {
  const [longer, setLonger] = useState<{ span: Span; figures: FigureSet } | null>(null);
  const chosen = span.value;
  useEffect(() => {
    const every = SPANS.find((one) => one.value === chosen)?.every ?? 0;
    if (!every) return;
    const stop = new AbortController();
    const load = () => api.get<FigureSet>('/api/figures', { span: chosen }, stop.signal).then((found) => setLonger({ span: chosen, figures: found }), () => {});
    void load();
    const timer = setInterval(load, every);
    return () => { stop.abort(); clearInterval(timer); };
  }, [chosen]);
  if (chosen === 'minute') return figures.value;
  return longer?.span === chosen ? longer.figures : null;
}

function Figures() {
  const now = useFigures();
  const label = span.value === 'minute' ? 'a minute' : SPANS.find((one) => one.value === span.value)?.label;
  const minute = now?.minute;
  const seconds = minute?.seconds ?? [];
  const requests = seconds.map((second) => second.requests);
  const peak = Math.max(0, ...requests) / (minute?.step || 1);
  const scanned = minute?.rows_scanned_per_second ?? 0;
  const returned = minute?.rows_returned_per_second ?? 0;
  const ratio = returned > 0 ? scanned / returned : 0;
  const total = requests.reduce((sum, count) => sum + count, 0);
  const errors = seconds.reduce((sum, second) => sum + second.errors, 0);
  const isWide = ratio >= 5;
  const faded = streamLost.value ? 'stale' : '';
  return (
    <dl class={`kpis panel ${faded}`}>
      <div class="kpi"><dt>Requests<span class="delta">peak {short(peak)}</span></dt>
        <dd><div class="v" data-test="requests">{now ? short(minute?.requests_per_second ?? 0) : '–'} <small>/s</small></div><Spark values={requests} /></dd></div>
      <div class="kpi"><dt>Rows read : sent</dt>
        <dd><div class={`v ${isWide ? 'warn' : ''}`}>{ratio > 0 ? short(ratio) : '–'} <small>: 1</small></div>
          <Spark warn={isWide} values={seconds.map((second) => (second.rows_returned ? second.rows_scanned / second.rows_returned : second.rows_scanned))} /></dd></div>
      <div class="kpi"><dt>Latency p99</dt>
        <dd><div class="v">{total ? (minute?.p99_ms ?? 0).toFixed((minute?.p99_ms ?? 0) < 100 ? 1 : 0) : '–'} <small>ms</small></div><Spark values={seconds.map((second) => second.p99_ms)} /></dd></div>
      <div class="kpi"><dt>Errors<span class="delta">{whole(errors)} in {label}</span></dt>
        <dd><div class="v">{total ? ((errors / total) * 100).toFixed(errors && errors / total < 0.1 ? 2 : 0) : '–'} <small>%</small></div><Spark values={seconds.map((second) => second.errors)} /></dd></div>
    </dl>
  );
}

/** Of a request, from which a table is marked as slow. */
const SLOW_MS = 500;
/** The last rates of each table, for its trend. */
const TREND_MAX = 40;
function useTrends() {
  const trends = useRef(new Map<string, number[]>());
  const now = figures.value;
  const seen = useRef(0);
  if (now && now.now !== seen.current) {
    seen.current = now.now;
    for (const table of now.minute?.tables ?? []) {
      const key = `${table.account}/${table.table}`;
      trends.current.set(key, [...(trends.current.get(key) ?? []), table.requests_per_second].slice(-TREND_MAX));
    }
  }
  return trends.current;
}

function Tables() {
  const [creating, setCreating] = useState(false);
  const found = resources.value;
  const trends = useTrends();
  const minute = figures.value?.minute;
  const rate = (name: string) => minute?.tables.find((table) => table.account === account.value && table.table.toLowerCase() === name.toLowerCase());
  const rows = [...(found?.tables ?? [])].sort((a, b) => (b.sight?.bytes ?? 0) - (a.sight?.bytes ?? 0));
  const largest = Math.max(1, ...rows.map((row) => row.sight?.bytes ?? 0));
  const kinds = ['point', 'range', 'pscan', 'tscan', 'write'];
  const names = ['point', 'range', 'partition scan', 'table scan', 'write'];
  return (
    <section class="panel" aria-label="Tables">
      <header><h2>Tables</h2><span class="pill">{rows.length}</span>
        <div class="pml hide-s" aria-hidden="true">{kinds.map((kind, index) => <span key={kind}><i class={`sw bg-${kind}`} />{names[index]}</span>)}</div>
        <button type="button" class="more linkish" onClick={() => setCreating(true)}>New table</button></header>
      {resourcesError.value && <div class="body"><ErrorNote error={resourcesError.value}><button type="button" class="btn sm" onClick={() => loadResources()}>Try again</button></ErrorNote></div>}
      {found && !rows.length ? (
        <Empty icon="table" title="No tables yet" actions={<button type="button" class="btn pri" onClick={() => setCreating(true)}>New table</button>}>Connect a client with the string on this page, or create a table here.</Empty>
      ) : (
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Tables by size"><table>
          <thead><tr><th>Table</th><th class="num c-s">Entities</th><th class="num">Size</th><th class="c-s wmeter"><span class="sr">Share</span></th><th class="num">Req/s</th><th class="c-s wtrend"><span class="sr">Trend</span></th><th class="num c-m">Read/s</th><th class="num c-s">p99</th><th class="wmix">Plan mix</th></tr></thead>
          <tbody>
            {!found && [1, 2, 3].map((row) => <tr key={row} class="placeholder"><td colSpan={9}><span class="meter" /></td></tr>)}
            {rows.map((row) => {
              const now = rate(row.name);
              const more = row.sight && !row.sight.isWhole ? '+' : '';
              const mix = now?.plans ?? {};
              const findingCount = findings.value?.filter((finding) => finding.account === account.value && finding.table.toLowerCase() === row.name.toLowerCase()).length ?? 0;
              return (
                <tr key={row.name}>
                  <td class="nm"><a class="mono" href={link('table', account.value, row.name)}>{row.name}</a>
                    {findingCount > 0 && <> <a class="pill warn" href={link('advisor')} title={`${findingCount} findings`}>{findingCount}</a></>}</td>
                  <td class="num c-s dim">{row.sight ? `${short(row.sight.entities)}${more}` : '…'}</td>
                  <td class="num">{row.sight ? `${bytes(row.sight.bytes)}${more}` : '…'}</td>
                  <td class="c-s"><Meter share={Math.max(0.01, (row.sight?.bytes ?? 0) / largest)} /></td>
                  <td class="num">{now ? short(now.requests_per_second) : '0'}</td>
                  <td class="c-s"><Spark values={trends.get(`${account.value}/${now?.table ?? ''}`) ?? [0, 0]} width={64} height={18} /></td>
                  <td class="num c-m dim">{now ? short(now.rows_scanned_per_second) : '0'}</td>
                  <td class={`num c-s ${now && now.p99_ms >= SLOW_MS ? 'warn' : ''}`}>{now && now.p99_ms > 0 ? ms(now.p99_ms) : '–'}</td>
                  <td><PlanMix counts={{ point: mix['point'] ?? 0, range: mix['range'] ?? 0, pscan: (mix['partition_scan'] ?? 0) + (mix['partition_range'] ?? 0), tscan: mix['table_scan'] ?? 0, write: mix['write'] ?? 0 }} /></td>
                </tr>
              );
            })}
          </tbody>
        </table></div>
      )}
      {creating && <Create what="table" onClose={() => setCreating(false)} />}
    </section>
  );
}

/** Requests in a second to a queue or a container of the account at hand. */
const rateOf = (service: string, name: string) => figures.value?.rates?.resources.find((one) => one.account === account.value && one.service === service && one.name === name)?.perSecond ?? 0;
/** As many lines as a panel shows before it asks. */
const LINES_MAX = 8;

/** A panel of one kind of resource: the first lines, and the rest when asked. */
function Resource<T extends { name: string }>(props: { title: string; what: string; rows: T[]; heads: [string, string][]; cells: (row: T) => (string | number)[] }) {
  const [creating, setCreating] = useState(false);
  const [all, setAll] = useState(false);
  const { title, what, rows } = props;
  const shown = all ? rows : rows.slice(0, LINES_MAX);
  return (
    <section class="panel" aria-label={title}>
      <header><h2>{title}</h2><span class="pill">{rows.length}</span><button type="button" class="more linkish" onClick={() => setCreating(true)}>New {what}</button></header>
      {resources.value && !rows.length && <p class="quietline dim">No {title.toLowerCase()} yet.</p>}
      {rows.length > 0 && <div class="scroll-x" tabIndex={0} role="region" aria-label={`${title} with size and rate`}><table class="res">
        <thead><tr><th>{title.replace(/s$/, '')}</th>{props.heads.map(([label, kind]) => <th key={label} class={`num ${kind}`}>{label}</th>)}</tr></thead>
        <tbody>{shown.map((row) => <tr key={row.name}><td class="nm"><a class="mono" href={link(what, account.value, row.name)}>{row.name}</a></td>{props.cells(row).map((cell, index) => <td key={index} class={`num ${props.heads[index]?.[1] ?? ''}`}>{cell}</td>)}</tr>)}</tbody>
      </table></div>}
      {rows.length > shown.length && <button type="button" class="linkish morerows" onClick={() => setAll(true)}>Show all {rows.length}</button>}
      {creating && <Create what={what} onClose={() => setCreating(false)} />}
    </section>
  );
}

function Queues() {
  const rows = [...(resources.value?.queues ?? [])].sort((a, b) => b.messages - a.messages);
  const flow = (name: string) => figures.value?.minute?.queues.find((one) => one.account === account.value && one.queue === name);
  return <Resource title="Queues" what="queue" rows={rows} heads={[['Messages', ''], ['Req/s', ''], ['In/s', 'c-s'], ['Out/s', 'c-s']]}
    cells={(row) => [whole(row.messages), short(rateOf('queue', row.name)), short(flow(row.name)?.in_per_second ?? 0), short(flow(row.name)?.out_per_second ?? 0)]} />;
}

function Containers() {
  const rows = [...(resources.value?.containers ?? [])].sort((a, b) => (b.size?.bytes ?? 0) - (a.size?.bytes ?? 0));
  const more = (row: (typeof rows)[number]) => (row.size && !row.size.isWhole ? '+' : '');
  return <Resource title="Containers" what="container" rows={rows} heads={[['Blobs', 'c-s'], ['Size', ''], ['Req/s', '']]}
    cells={(row) => [row.size ? `${short(row.size.blobs)}${more(row)}` : '–', row.size ? `${bytes(row.size.bytes)}${more(row)}` : '–', short(rateOf('blob', row.name))]} />;
}

/** What each account holds, by the server's last looks; asked for where there are several. */
function useHoldings(names: string[]) {
  const [held, setHeld] = useState<Map<string, { bytes: number | null; isWhole: boolean }>>(new Map());
  const many = names.length > 1;
  useEffect(() => {
    if (!many) return;
    const stop = new AbortController();
    const load = () => api.get<{ accounts: { account: string; bytes: number | null; isWhole: boolean }[] }>('/api/holdings', {}, stop.signal).then((found) => setHeld(new Map(found.accounts.map((one) => [one.account, one]))), () => {});
    void load();
    // The first look at the tables takes a moment.
    const soon = setTimeout(load, 2000);
    const timer = setInterval(load, REFRESH_MS);
    return () => { stop.abort(); clearTimeout(soon); clearInterval(timer); };
  }, [many, names.join('\n')]);
  return held;
}

/** The accounts of the session; what one holds is the sum of what is known of it, and freshest for the one at hand. */
function Accounts() {
  const names = session.value?.accounts ?? [];
  const found = resources.value;
  const held = (found?.tables ?? []).reduce((sum, table) => sum + (table.sight?.bytes ?? 0), 0) + (found?.containers ?? []).reduce((sum, one) => sum + (one.size?.bytes ?? 0), 0);
  const isPart = found?.tables.some((table) => !table.sight?.isWhole) || found?.containers.some((one) => !one.size?.isWhole);
  const holdings = useHoldings(names);
  const size = (name: string) => {
    if (name === account.value && found) return `${bytes(held)}${isPart ? '+' : ''}`;
    const known = holdings.get(name);
    return known && known.bytes !== null ? `${bytes(known.bytes)}${known.isWhole ? '' : '+'}` : '–';
  };
  const rate = (name: string) => figures.value?.rates?.accounts.find((one) => one.account === name)?.perSecond ?? 0;
  return (
    <section class="panel" aria-label="Accounts">
      <header><h2>Accounts</h2><span class="pill">{names.length}</span><a class="more" href={link('access')}>Keys and SAS</a></header>
      <div class="scroll-x" tabIndex={0} role="region" aria-label="Accounts with size and rate"><table class="res"><thead><tr><th>Account</th><th class="num" title="Tables and containers, as far as they were looked at">Size</th><th class="num">Req/s</th></tr></thead>
        <tbody>{names.map((name) => <tr key={name}><td class="nm">{name === account.value ? <span class="mono">{name}</span> : <button type="button" class="linkish mono" onClick={() => chooseAccount(name)}>{name}</button>}</td>
          <td class="num">{size(name)}</td><td class="num">{short(rate(name))}</td></tr>)}</tbody></table></div>
    </section>
  );
}

function Findings() {
  const list = findings.value;
  const top = list?.slice(0, 3) ?? [];
  return (
    <section class="panel" aria-label="Advisor">
      <header><h2>Advisor</h2><span class="dim small">top three</span><a class="more" href={link('advisor')}>{list?.length ? `All ${list.length} findings` : 'Open'}</a></header>
      {list && !list.length && <p class="quietline"><Icon name="check" class="ok" />Nothing to improve in the requests so far.</p>}
      {top.map((finding, index) => (
        <a class="find-row" key={finding.id} href={`${link('advisor')}?at=${encodeURIComponent(finding.id)}`}>
          <span class="rank">{index + 1}</span>
          <div class="grow"><div><FindingTitle title={finding.title} shape={finding.shape} /></div><p><code>{subject(finding)}</code> · {finding.requests_per_hour >= 1 ? `${short(finding.requests_per_hour)} times/h · ` : ''}{finding.guide_section}</p></div>
          <div class="gain">{finding.rows_scanned > finding.rows_returned * 2 ? <><b>{short(finding.rows_scanned / Math.max(1, finding.rows_returned))} : 1</b>read : sent</> : finding.requests_per_hour > 0 ? <><b>{short(finding.requests_per_hour)}</b>requests/h</> : <b>{finding.rule.replace(/-/g, ' ')}</b>}</div>
        </a>
      ))}
    </section>
  );
}

const HIDDEN = '••••••••••••';

function Connect() {
  const info = server.value?.accounts.find((one) => one.account === account.value);
  const [form, setForm] = useState<'string' | 'env' | 'sas'>('string');
  const [shown, setShown] = useState(false);
  const [sas, setSas] = useState('');
  useEffect(() => {
    setSas('');
    if (form !== 'sas' || !info) return;
    const expiry = new Date(Date.now() + 7 * 86_400_000).toISOString();
    const wanted = { account: info.account, kind: 'account', services: 'btq', resourceTypes: 'sco', permissions: 'rwdlacup', expiry };
    api.send('POST', '/api/sas', { body: JSON.stringify(wanted) }).then(async (answer) => setSas(((await answer.json()) as { token: string }).token), () => setSas(''));
  }, [form, info?.account]);
  if (!info) return <section class="panel"><header><h2>Connect</h2></header><div class="body faint">Loading</div></section>;
  const real = parts(info, form, sas, info.key);
  const visible = parts(info, form, sas ? (shown ? sas : sas.replace(/sig=[^&]*/, `sig=${HIDDEN}`)) : '', info.key ? (shown ? info.key : HIDDEN) : null);
  const join = (list: [string, string][]) => (form === 'env' ? `AZURE_STORAGE_CONNECTION_STRING="${list.map(([name, value]) => `${name}=${value}`).join(';')}"` : list.map(([name, value]) => `${name}=${value}`).join(';'));
  return (
    <section class="panel" aria-label="Connect">
      <header><h2>Connect</h2><span class="more dim mono">{info.account}</span></header>
      <div class="body">
        <div class="ep">{info.endpoints.map((endpoint) => [
          <span class="dt" key={`${endpoint.service}-n`}>{endpoint.service}</span>, <span class="dd" key={`${endpoint.service}-v`} title={endpoint.url}>{endpoint.url.replace(/^https?:\/\//, '')}</span>,
          <Copy key={`${endpoint.service}-c`} text={endpoint.url} label={`Copy ${endpoint.service.toLowerCase()} endpoint`} />,
        ])}</div>
        <div class="row formrow"><Segments label="Form" value={form} onPick={setForm} choices={[{ value: 'string', label: 'Connection string' }, { value: 'sas', label: 'SAS' }, { value: 'env', label: '.env' }]} /><span class="grow" />
          {(info.key || form === 'sas') && <button type="button" class="btn ghost sm" aria-pressed={shown} onClick={() => setShown(!shown)}><Icon name="eye" small />Key</button>}</div>
        <div class="cs" data-test="connection">{form === 'env' && <>AZURE_STORAGE_CONNECTION_STRING="</>}{visible.map(([name, value]) => <span key={name}>{name}=<b>{value}</b>;<wbr /></span>)}{form === 'env' && '"'}
          <Copy text={() => join(real)} label="Copy connection string" /></div>
        {!info.key && form !== 'sas' && <p class="hint dim">The server keeps no readable key of this account: put yours in.</p>}
      </div>
    </section>
  );
}

function parts(info: Connection, form: string, sas: string, key: string | null): [string, string][] {
  const endpoints = info.endpoints.map((endpoint): [string, string] => [`${endpoint.service}Endpoint`, endpoint.url]);
  if (form === 'sas') return [...endpoints, ['SharedAccessSignature', sas || '…']];
  return [['DefaultEndpointsProtocol', info.scheme], ['AccountName', info.account], ['AccountKey', key ?? '<its key>'], ...endpoints];
}

/** Figures worth a line, where the store has them: label, how to read it. */
const SHOWN: [RegExp, string, (value: number) => string][] = [
  [/commit_p99_us$/, 'Commit p99', (value) => ms(value / 1000)],
  [/cache_hit_permille$/, 'Cache hit', (value) => `${(value / 10).toFixed(1)} %`],
  [/unflushed_bytes$/, 'Not flushed yet', bytes],
  [/write_stalls_total$/, 'Write stalls', whole],
  [/content_bytes$/, 'Blob contents', bytes],
];

function StoreHealth() {
  const state = health.value;
  if (!state) return <section class="panel"><header><span class="dot warn" /><h2>Store health</h2></header><div class="body faint">Connecting</div></section>;
  const lines = SHOWN.flatMap(([pattern, label, read]) => {
    const figure = state.figures.find((one) => pattern.test(one.name));
    return figure ? [{ label, help: figure.help, value: read(figure.value), past: past.get(figure.name) ?? [] }] : [];
  });
  const nodes = server.value?.nodes ?? [];
  const up = nodes.filter((node) => node.isUp).length;
  const used = state.disk ? 1 - state.disk.free / state.disk.total : 0;
  return (
    <section class="panel" aria-label="Store health">
      <header><span class={`dot ${state.failure ? 'bad' : ''}`} /><h2>Store health</h2><span class="more dim">{state.failure ? 'not answering' : streamLost.value ? 'stale' : 'answers reads'}</span></header>
      <div class="body">
        {state.failure && <ErrorNote error={state.failure} />}
        <div class={`health ${streamLost.value ? 'stale' : ''}`}>
          <span class="l">Engine</span><span /><span class="n">{state.engine === 'local' ? 'embedded' : 'Cassandra'}</span>
          {nodes.length > 0 && <><span class="l">Nodes connected</span><span><Meter share={up / nodes.length} width={84} class={up < nodes.length ? 'warn' : ''} /></span><span class={`n ${up < nodes.length ? 'warn' : ''}`}><a href={link('cluster')}>{up} of {nodes.length}</a></span></>}
          {lines.map((line) => [<span class="l" key={`${line.label}l`} title={line.help}>{line.label}</span>, <span key={`${line.label}m`}><Spark values={line.past} width={84} height={20} /></span>, <span class="n" key={`${line.label}n`}>{line.value}</span>])}
          {state.disk && <><span class="l">Disk free</span><span><Meter share={used} width={84} class={used > 0.9 ? 'warn' : ''} /></span><span class="n">{bytes(state.disk.free)}</span></>}
        </div>
      </div>
    </section>
  );
}

function Storage() {
  const state = health.value;
  const disk = state?.disk;
  if (!state || !disk) return null;
  const contents = figure(state, /content_bytes$/);
  const rows = Math.max(0, disk.data - contents);
  const other = Math.max(0, disk.total - disk.free - disk.data);
  const kinds: [string, number, string][] = [['Tables, queues and catalog', rows, 'k1'], ['Blob contents', contents, 'k2'], ['Other files', other, 'k3'], ['Free', disk.free, 'k4']];
  const text = kinds.map(([name, value]) => `${name} ${bytes(value)}`).join(', ');
  const days = disk.growth ? daysLeft(disk.free, disk.growth) : '';
  return (
    <section class="panel storage" aria-label="Storage">
      <header><h2>Storage</h2><code class="dim ellip">{state.location}</code><span class="more dim">{bytes(disk.data)} in the data folder · {bytes(disk.total)} disk{days ? ` · ${days} left at this rate` : ''}</span></header>
      <div class="body"><div class="stack" role="img" aria-label={text}>{kinds.map(([name, value, kind]) => <i key={name} class={kind} style={{ width: `${(value / disk.total) * 100}%` }} />)}</div>
        <div class="keys4">{kinds.map(([name, value, kind]) => <div class="keyrow" key={name}><span class={`sw ${kind}`} />{name}<span class="dim">{bytes(value)}</span></div>)}</div></div>
    </section>
  );
}
const figure = (state: Health, pattern: RegExp) => state.figures.find((one) => pattern.test(one.name))?.value ?? 0;

/** The growth that the server has seen, carried on. */
function daysLeft(free: number, growth: { bytes: number; seconds: number }): string {
  const days = free / (growth.bytes / growth.seconds) / 86_400;
  return days > 3650 ? '' : days >= 1 ? `${whole(days)} d` : `${Math.round(days * 24)} h`;
}
