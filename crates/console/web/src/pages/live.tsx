// The tail of requests, sampled under load: filter, plan kinds on and off, a row opens to its detail and pauses.

import uPlot from 'uplot';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { bytes, clockTime, ms, PLAN_NAMES, short, whole } from '../format';
import { figures, here, isDark, link, pauseTail, streamLost, tail, tailPaused, tailShare, type TailItem } from '../store';
import { Chip, css, Empty, Icon, percent } from '../ui';
import { Shell } from '../shell';

const KINDS = ['point', 'range', 'pscan', 'prange', 'tscan', 'write'];
const ROWS_MAX = 60;

/** `table:Employees status:>=400 ms:>50`, or text that is in the request. */
export function matches(item: TailItem, text: string): boolean {
  return text.trim().toLowerCase().split(/\s+/).filter(Boolean).every((word) => {
    const [, name = '', how = '', value = ''] = /^(table|queue|container|status|ms|code):(>=|<=|>|<)?(.*)$/.exec(word) ?? [];
    const compare = (actual: number) => ({ '>': actual > +value, '<': actual < +value, '>=': actual >= +value, '<=': actual <= +value, '': actual === +value })[how] ?? false;
    switch (name) {
      case 'status': return compare(item.status);
      case 'ms': return compare(item.total);
      case 'code': return (item.code ?? '').toLowerCase().includes(value);
      case 'table': case 'queue': case 'container': return item.service === (name === 'container' ? 'blob' : name) && (item.resource ?? '').toLowerCase().startsWith(value);
      default: return `${item.text} ${item.operation ?? ''} ${item.code ?? ''} ${PLAN_NAMES[item.kind] ?? ''} ${item.clientId ?? ''}`.toLowerCase().includes(word);
    }
  });
}

export function LivePage() {
  const [text, setText] = useState(here.value.query.get('q') ?? '');
  const [off, setOff] = useState<Set<string>>(new Set());
  const [open, setOpen] = useState(-1);
  const paused = tailPaused.value;
  const items = tail.value;
  const pause = (on: boolean) => { pauseTail(on); if (!on) setOpen(-1); };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== ' ' || (event.target as HTMLElement).closest('input,button,a,textarea,select,tr')) return;
      event.preventDefault();
      pause(!tailPaused.value);
    };
    addEventListener('keydown', onKey);
    return () => { removeEventListener('keydown', onKey); pauseTail(false); };
  }, []);
  const shown = items.filter((item) => !off.has(item.kind) && matches(item, text)).slice(-ROWS_MAX).reverse();
  const seconds = figures.value?.seconds ?? [];
  const totals = KINDS.map((_, index) => seconds.reduce((sum, second) => sum + (second[index + 1] ?? 0), 0));
  const all = totals.reduce((sum, count) => sum + count, 0);
  const last = seconds[seconds.length - 2] ?? seconds[seconds.length - 1] ?? [];
  const rate = last.slice(1).reduce((sum, count) => sum + count, 0);
  const { shown: sent, of } = tailShare.value;
  const sampling = `${short(rate)}/s, ${of > sent ? `showing ${whole(sent)} of ${whole(of)}/s, errors first` : 'showing all'}`;
  // A page that is paused still says how much of the requests it gets.
  const state = (long: boolean) => (streamLost.value ? 'stream lost' : paused ? `Paused${long && open >= 0 ? ' while a request is open' : ''} · ${sampling}` : sampling);
  const actions = (
    <>
      <span class="row small dim hide-s" data-test="sampling"><span class={`dot ${paused || streamLost.value ? 'warn' : ''}`} />{state(true)}</span>
      <button type="button" class="btn" title="Space" onClick={() => pause(!paused)}><Icon name={paused ? 'play' : 'pause'} small />{paused ? 'Resume' : 'Pause'}</button>
    </>
  );
  const toggle = (kind: string) => { const next = new Set(off); if (!next.delete(kind)) next.add(kind); setOff(next); };
  return (
    <Shell title="Live requests" label="Live requests" actions={actions}>
      <div class="lv-bar">
        <div class="lvfilter"><label class="sr" for="lf">Filter requests</label><input id="lf" data-slash class="inp mono" placeholder="table:Employees  status:>=400  ms:>50" value={text} onInput={(event) => setText(event.currentTarget.value)} /></div>
        <div class="row wrap">{KINDS.map((kind, index) => <button type="button" key={kind} class={`chip toggle ${kind}`} aria-pressed={!off.has(kind)} onClick={() => toggle(kind)}>{PLAN_NAMES[kind]} <span class="c">{percent(all ? (totals[index] ?? 0) / all : 0)}</span></button>)}</div>
      </div>
      <section class="panel">
        <div class="row xs faint ratehead"><span>Requests per second by plan kind, last 2 min</span><span class="grow" /><span class="only-s">{state(false)}</span><span class="hide-s">peak {whole(Math.max(0, ...seconds.map((second) => second.slice(1).reduce((sum, count) => sum + count, 0))))}</span></div>
        <Rate seconds={seconds} />
        <div class="scroll-x lvbox" tabIndex={0} role="region" aria-label="Requests"><table class="lv" role="treegrid" aria-label="Requests">
          <thead><tr><th>Time</th><th class="c-s">Operation</th><th>Request</th><th>Plan</th><th class="num c-s">Read → sent</th><th class="num">Status</th><th>Latency</th></tr></thead>
          <tbody>{shown.map((item) => <Request key={item.n} item={item} isOpen={open === item.n} onToggle={() => { if (open === item.n) setOpen(-1); else { setOpen(item.n); pauseTail(true); } }} />)}</tbody>
        </table></div>
        {!shown.length && (items.length
          ? <Empty icon="none" title="No request matches" actions={<button type="button" class="btn" onClick={() => { setText(''); setOff(new Set()); }}>Clear filters</button>}>{off.size ? `${off.size} plan kinds are switched off. ` : ''}The tail keeps running; matching requests appear here.</Empty>
          : <Empty icon="live" title="No requests yet">Requests to the data ports appear here as they are answered. What this console asks is not shown.</Empty>)}
      </section>
    </Shell>
  );
}

function Request({ item, isOpen, onToggle }: { item: TailItem; isOpen: boolean; onToggle: () => void }) {
  const tone = item.status >= 500 ? 'err' : item.total > 100 ? 'slow' : '';
  const isWide = item.scanned > item.returned * 20 && item.scanned > 50;
  return (
    <>
      <tr tabIndex={0} data-id={item.n} class={`${tone} ${isOpen ? 'open' : ''}`} aria-expanded={isOpen} onClick={onToggle} onKeyDown={(event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); event.stopPropagation(); onToggle(); } }}>
        <td class="dim">{clockTime(item.at)}</td><td class="c-s mono dim">{item.operation ?? '–'}</td><td class="q0" title={item.text}><bdi>{item.text}</bdi></td>
        <td><Chip kind={item.kind} /></td><td class={`num c-s ${isWide ? 'warn' : 'dim'}`}>{short(item.scanned)} → {short(item.returned)}</td>
        <td class={`num ${item.status >= 500 ? 'bad' : item.status >= 400 ? 'warn' : 'dim'}`}>{item.status}</td>
        <td><span class="lat"><span class="lbw"><i class="lb" style={{ width: `${Math.min(100, (Math.log10(1 + item.total) / 3.3) * 100)}%` }} /></span><span>{ms(item.total)}</span></span></td>
      </tr>
      {isOpen && (
        <tr class="det"><td colSpan={7}><div class="g">
          <dl class="kv"><dt>Request</dt><dd class="mono wrapany"><bdi>{item.text}</bdi></dd><dt>Plan</dt><dd>{PLAN_NAMES[item.kind]}{item.ranges !== null && `, ${item.ranges} ${item.ranges === 1 ? 'range' : 'ranges'}`}</dd>
            <dt>Read</dt><dd>{whole(item.scanned)} rows, {bytes(item.bytesIn)} received</dd><dt>Sent</dt><dd>{whole(item.returned)} rows, {bytes(item.bytesOut)}</dd>
            {item.code && <><dt>Code</dt><dd class="mono bad">{item.code}{item.throttled ? ' (throttled)' : ''}</dd></>}
            <dt>Request id</dt><dd class="mono wrapany">{item.id}</dd>{item.clientId && <><dt>Client id</dt><dd class="mono wrapany">{item.clientId}</dd></>}</dl>
          <div><div class="sub">Where the time went</div><Times item={item} />
            {item.service === 'table' && item.resource && item.account && <div class="row small detlinks"><a href={tableLink(item)}>Open in browser</a><a href={link('heatmap', item.account, item.resource)}>Heat map</a></div>}</div>
        </div></td></tr>
      )}
    </>
  );
}

function Times({ item }: { item: TailItem }) {
  const rest = Math.max(0, item.total - item.queued - item.executed);
  const share = (part: number) => `${(part / Math.max(0.001, item.total)) * 100}%`;
  return <><div class="stack times"><i class="t1" style={{ width: share(item.queued) }} /><i class="t2" style={{ width: share(item.executed) }} /><i class="t3" style={{ width: share(rest) }} /></div>
    <div class="xs dim">decode and wait {ms(item.queued)} · execute {ms(item.executed)} · encode {ms(rest)}</div></>;
}

function tableLink(item: TailItem): string {
  const filter = /\$filter=([^]*?)(?:&\$(?:select|top)=|$)/.exec(item.text)?.[1];
  const keys = /\(PartitionKey='((?:[^']|'')*)',RowKey='((?:[^']|'')*)'\)$/.exec(item.text);
  const text = filter ?? (keys ? `PartitionKey eq '${keys[1]}' and RowKey eq '${keys[2]}'` : item.partition !== null ? `PartitionKey eq '${item.partition.replace(/'/g, "''")}'` : '');
  return `${link('table', item.account ?? '', item.resource ?? '')}${text ? `?filter=${encodeURIComponent(text)}` : ''}`;
}

/** Stacked bars, by uPlot: each kind is drawn on top of the ones before it. */
function Rate({ seconds }: { seconds: number[][] }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  const order = [5, 0, 1, 3, 2, 4];
  const stacked = (): uPlot.AlignedData => {
    const end = seconds[seconds.length - 1]?.[0] ?? Math.floor(Date.now() / 1000);
    const at = new Map(seconds.map((second) => [second[0], second]));
    const xs = Array.from({ length: 120 }, (_, index) => end - 119 + index);
    const sums = xs.map(() => 0);
    const rows = order.map((kind) => xs.map((x, index) => (sums[index] = (sums[index] ?? 0) + (at.get(x)?.[kind + 1] ?? 0))));
    return [xs, ...rows.reverse()];
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const bars = uPlot.paths.bars?.({ size: [0.8, 8], align: 0 });
    const size = () => ({ width: Math.max(100, element.clientWidth), height: 56 });
    const made = new uPlot({
      ...size(), padding: [4, 0, 0, 0], cursor: { show: false }, legend: { show: false }, axes: [{ show: false }, { show: false }],
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, Math.max(1, max)] } },
      series: [{}, ...[...order].reverse().map((kind): uPlot.Series => ({ paths: bars, points: { show: false }, fill: () => css(kind === 5 ? '--line-strong' : `--p-${KINDS[kind] === 'prange' ? 'pscan' : KINDS[kind]}`), stroke: 'transparent', width: 0 }))],
    }, stacked(), element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize(size()));
    watch.observe(element);
    return () => { watch.disconnect(); made.destroy(); plot.current = null; };
  }, [dark]);
  useEffect(() => { plot.current?.setData(stacked()); }, [seconds]);
  return <div class="rate" ref={box} role="img" aria-label="Requests per second by plan kind, last two minutes" />;
}
