// The entity browser: filter with its plan, pages by continuation, grid, editor, import and export.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { findings } from '../advice';
import { bytes, PLAN_CLASS, whole } from '../format';
import { go, here, later, link, loadResources, say, setQuery, type FullSight } from '../store';
import { Busy, DropDialog, Empty, Icon, useLoad } from '../ui';
import { Shell } from '../shell';
import { queryEntities, entityPath, type EdmType, type Entity, type Page, type Value } from '../entity';
import { FilterBox, PlanChip, usePlan } from './filter';
import { EntityEditor } from './editor';
import { ExportDialog, ImportDialog } from './transfer';

const idOf = (entity: { partition: string; row: string }) => JSON.stringify([entity.partition, entity.row]);

export function TablePage({ account, table }: { account: string; table: string }) {
  const start = here.value.query;
  const [filter, setFilter] = useState(start.get('filter') ?? '');
  const [select, setSelect] = useState(start.get('select') ?? '');
  const [top, setTop] = useState(start.get('top') ?? '100');
  const [page, setPage] = useState<Page | null>(null);
  /** The $select of the page that is shown. */
  const [selected, setSelected] = useState('');
  /** Its $filter. */
  const [ran, setRan] = useState('');
  const [failure, setFailure] = useState<{ message: string; code: string; position: number } | null>(null);
  const [busy, setBusy] = useState(false);
  const [tokens, setTokens] = useState<string[]>(['']);
  const [gone, setGone] = useState<Set<string>>(new Set());
  const [checked, setChecked] = useState<Set<string>>(new Set());
  const [open, setOpen] = useState<Entity | 'new' | null>(null);
  const [dialog, setDialog] = useState('');
  const [caretAt, setCaretAt] = useState(-1);
  const sight = useLoad((signal) => api.get<FullSight | null>('/api/table', { account, table }, signal), [account, table]);
  const plan = usePlan(filter);
  const running = useRef<AbortController | null>(null);

  const run = async (path: string[]) => {
    running.current?.abort();
    const stop = (running.current = new AbortController());
    setBusy(true);
    setFailure(null);
    setQuery({ filter, select, top: top === '100' ? '' : top });
    try {
      const found = await queryEntities(account, table, { filter, select, top }, path[path.length - 1] ?? '', stop.signal);
      if (stop.signal.aborted) return;
      setPage(found);
      setSelected(select.trim());
      setRan(filter.trim());
      setTokens(path);
      setChecked(new Set());
    } catch (error) {
      if (stop.signal.aborted) return;
      const message = (error as Error).message;
      setFailure({ message: message.replace(/ in '.*'\.?$/s, ''), code: (error as api.ServerError).code ?? '', position: Number(/position (\d+)/.exec(message)?.[1] ?? -1) });
    }
    setBusy(false);
  };
  useEffect(() => { void run(['']); return () => running.current?.abort(); }, [account, table]);

  const shown = useMemo(() => (page?.entities ?? []).filter((entity) => !gone.has(idOf(entity))), [page, gone]);
  const columns = useMemo(() => columnsOf(shown, select), [shown, select]);

  const remove = (entities: Entity[]) => {
    const ids = entities.map(idOf);
    setGone(new Set([...gone, ...ids]));
    if (open && open !== 'new' && ids.includes(idOf(open))) setOpen(null);
    setChecked(new Set());
    const only = entities[0];
    const text = entities.length === 1 && only ? `Deleted ${only.partition} / ${only.row}` : `Deleted ${entities.length} entities`;
    const back = () => setGone((old) => new Set([...old].filter((id) => !ids.includes(id))));
    later(text, async () => {
      // All at once: a page that goes away has time to begin requests, not to wait for them.
      const asked = entities.map((entity) => api.storage('table', account, 'DELETE', entityPath(table, entity.partition, entity.row), { headers: { 'if-match': entity.etag || '*' } }));
      const ended = await Promise.allSettled(asked);
      const kept = entities.filter((_, index) => ended[index]?.status === 'rejected');
      const why = ended.find((one) => one.status === 'rejected')?.reason as Error | undefined;
      sight.again();
      if (!kept.length) return;
      setGone((old) => new Set([...old].filter((id) => !kept.some((entity) => idOf(entity) === id))));
      say(`${kept.length} of ${entities.length} not deleted. ${why?.message ?? ''}`, true);
    }, back);
  };
  const saved = (entity: Entity, isNew: boolean) => {
    setOpen(entity);
    if (!page) return;
    const rest = page.entities.filter((one) => idOf(one) !== idOf(entity));
    const shownAs = project(entity, selected);
    const entities = isNew ? [shownAs, ...rest] : page.entities.map((one) => (idOf(one) === idOf(entity) ? shownAs : one));
    setPage({ ...page, entities });
    setGone(new Set([...gone].filter((id) => id !== idOf(entity))));
    if (isNew) { sight.again(); void loadResources(); }
  };
  const drop = async () => {
    await api.storage('table', account, 'DELETE', `Tables('${api.encode(table)}')`);
    setDialog('');
    say(`Dropped ${table}`);
    await loadResources();
    go(link('overview'));
  };

  const facts = sight.value;
  const findingCount = findings.value?.filter((finding) => finding.account === account && finding.table.toLowerCase() === table.toLowerCase()).length ?? 0;
  const nextStart = decodeNext(page?.next ?? '');
  const actions = (
    <>
      <button type="button" class="btn hide-s" onClick={() => setDialog('import')}><Icon name="up" small />Import</button>
      <button type="button" class="btn hide-s" onClick={() => setDialog('export')}><Icon name="down" small />Export</button>
      <button type="button" class="btn" onClick={() => setOpen('new')}><Icon name="plus" small />Entity</button>
      <button type="button" class="btn ghost icon" aria-label="Drop table" title="Drop table" onClick={() => setDialog('drop')}><Icon name="trash" small /></button>
    </>
  );
  return (
    <Shell title={<code>{table}</code>} label={table} actions={actions} wide>
      <div class={`tb ${open ? '' : 'noent'}`}>
        <div class="tb-main">
          <div class="tabs"><a href={link('table', account, table)} aria-current="page">Entities</a><a href={link('heatmap', account, table)}>Heat map</a>
            <a href={link('advisor')}>Advisor {findingCount > 0 && <span class="pill warn">{findingCount}</span>}</a><a href={`${link('live')}?q=${encodeURIComponent(`table:${table}`)}`}>Live</a><span class="grow" />
            {facts && <span class="dim small hide-s facts">{whole(facts.entities)}{facts.isWhole ? '' : '+'} entities · {whole(facts.partitions)}{facts.isWhole ? '' : '+'} partitions · {bytes(facts.bytes)}{facts.isWhole ? '' : '+'}</span>}</div>
          <div class="row only-s mobileacts"><button type="button" class="btn sm" onClick={() => setDialog('import')}>Import</button> <button type="button" class="btn sm" onClick={() => setDialog('export')}>Export</button></div>
          <FilterBox value={filter} sight={facts} plan={plan} onInput={setFilter} onRun={() => run([''])} caretAt={caretAt} />
          <div class="planline"><PlanChip plan={plan} sight={facts} /><span class="grow" />
            <label class="mini"><span>$select</span><input class="inp sm mono" value={select} placeholder="all" size={12} onInput={(event) => setSelect(event.currentTarget.value)} onKeyDown={(event) => { if (event.key === 'Enter') void run(['']); }} /></label>
            <label class="mini"><span>$top</span><input class="inp sm mono" value={top} size={4} inputMode="numeric" onInput={(event) => setTop(event.currentTarget.value.replace(/\D/g, ''))} onKeyDown={(event) => { if (event.key === 'Enter') void run(['']); }} /></label></div>
          <Busy on={busy} />
          <Grid columns={columns} entities={shown} busy={busy} failure={failure} hasPage={page !== null} checked={checked} open={open && open !== 'new' ? idOf(open) : ''}
            onOpen={setOpen} onCheck={setChecked} onFix={(position) => { setCaretAt(-1); requestAnimationFrame(() => setCaretAt(position)); }} onClear={() => { setFilter(''); setTimeout(() => document.getElementById('filter')?.focus(), 0); }} onInsert={() => setOpen('new')} hasFilter={filter.trim() !== ''} table={table} />
          {page && !failure && <ResultBar page={page} count={shown.length} hasFinding={findingCount > 0} hasFilter={ran !== ''} />}
          {page && !failure && (
            <div class="pager">
              <div class="legend"><span><i class="hs" />not on this entity</span><span><i class="nul">null</i>returned as null</span><span><i class="estr">""</i>empty string</span></div>
              <span class="grow" />
              {checked.size > 0 && <button type="button" class="btn sm danger" onClick={() => remove(shown.filter((entity) => checked.has(idOf(entity))))}>Delete {checked.size}</button>}
              <span class="nw">{shown.length ? `page ${tokens.length} · ${whole(shown.length)}` : 'empty page'}{nextStart && <> · next from <code class="ellip nextkey">{nextStart}</code></>}</span>
              <button type="button" class="btn sm" disabled={tokens.length < 2 || busy} onClick={() => run(tokens.slice(0, -1))}>Back</button>
              <button type="button" class="btn sm" disabled={!page.next || busy} title={page.next} onClick={() => run([...tokens, page.next])}>Next page</button>
            </div>
          )}
        </div>
        {open && <EntityEditor key={open === 'new' ? 'new' : `${idOf(open)}${open.etag}`} account={account} table={table} entity={open === 'new' ? null : open} sight={facts} isPart={selected !== ''}
          onSaved={saved} onDelete={(entity) => remove([entity])} onClose={() => setOpen(null)} />}
      </div>
      {dialog === 'drop' && <DropDialog what="table" name={table} note="All of its entities go with it." onDrop={drop} onClose={() => setDialog('')} />}
      {dialog === 'import' && <ImportDialog account={account} table={table} onClose={() => setDialog('')} onDone={() => { void run(['']); sight.again(); void loadResources(); }} />}
      {dialog === 'export' && <ExportDialog account={account} table={table} filter={filter} select={select} sight={facts} onClose={() => setDialog('')} />}
    </Shell>
  );
}

/** The key that the next page begins with, as far as the token tells. */
function decodeNext(next: string): string {
  const token = /NextRowKey=([^&]*)/.exec(next)?.[1] ?? /NextPartitionKey=([^&]*)/.exec(next)?.[1] ?? '';
  const encoded = decodeURIComponent(token).split('!')[2] ?? '';
  try {
    const binary = atob(encoded.replace(/-/g, '=').replace(/_/g, '/').replace(/\*/g, '+'));
    return new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(binary, (letter) => letter.charCodeAt(0)));
  } catch {
    return '';
  }
}

/** An entity as a query with this $select returns it. */
function project(entity: Entity, select: string): Entity {
  const names = select.split(',').map((name) => name.trim()).filter((name) => name && !['PartitionKey', 'RowKey', 'Timestamp'].includes(name));
  if (!select || names.includes('*')) return entity;
  return { ...entity, values: new Map(names.map((name): [string, Value | null] => [name, entity.values.get(name) ?? null])) };
}

interface Column { name: string; type: EdmType | null; others: number; title: string }

/** The properties of a page in the order in which they come, each with its commonest type. */
function columnsOf(entities: Entity[], select: string): Column[] {
  const counts = new Map<string, Map<EdmType, number>>();
  for (const entity of entities) {
    for (const [name, value] of entity.values) {
      const types = counts.get(name) ?? new Map<EdmType, number>();
      counts.set(name, types);
      if (value) types.set(value.type, (types.get(value.type) ?? 0) + 1);
    }
  }
  const asked = select.split(',').map((name) => name.trim());
  return [...counts].sort(([a], [b]) => {
    const [at, bt] = [asked.indexOf(a), asked.indexOf(b)];
    return at >= 0 && bt >= 0 ? at - bt : 0;
  }).map(([name, types]) => {
    const sorted = [...types].sort(([, a], [, b]) => b - a);
    return { name, type: sorted[0]?.[0] ?? null, others: Math.max(0, sorted.length - 1), title: sorted.map(([type, count]) => `${count} ${type}`).join(', ') };
  });
}

const isNumber = (type: EdmType | null) => type === 'Int32' || type === 'Int64' || type === 'Double';

function Grid(props: {
  columns: Column[]; entities: Entity[]; busy: boolean; hasPage: boolean; hasFilter: boolean; table: string; checked: Set<string>; open: string;
  failure: { message: string; code: string; position: number } | null;
  onOpen: (entity: Entity) => void; onCheck: (checked: Set<string>) => void; onFix: (position: number) => void; onClear: () => void; onInsert: () => void;
}) {
  const box = useRef<HTMLDivElement>(null);
  const { failure, entities } = props;
  if (failure) {
    return (
      <div class="gridbox"><Empty icon="warn" role="alert" title={failure.code === 'InvalidInput' ? 'The filter does not parse' : 'The query failed'}
        actions={<>{failure.position >= 0 && <button type="button" class="btn" onClick={() => props.onFix(failure.position)}>Go to position {failure.position}</button>}<button type="button" class="btn" onClick={props.onClear}>Clear the filter</button></>}>
        {failure.message}. Nothing was read. <code>{failure.code}</code></Empty></div>
    );
  }
  if (props.hasPage && !entities.length && !props.busy) {
    return props.hasFilter
      ? <div class="gridbox"><Empty icon="none" role="status" title="No entities match" actions={<button type="button" class="btn" onClick={props.onClear}>Clear the filter</button>}>None of the rows read passed the filter.</Empty></div>
      : <div class="gridbox"><Empty icon="table" role="status" title="No entities yet" actions={<button type="button" class="btn pri" onClick={props.onInsert}>Insert an entity</button>}><code>{props.table}</code> is empty on this page.</Empty></div>;
  }
  const all = entities.length > 0 && entities.every((entity) => props.checked.has(idOf(entity)));
  const move = (row: number) => box.current?.querySelectorAll<HTMLElement>('tbody tr')[row]?.focus();
  const toggle = (entity: Entity) => {
    const next = new Set(props.checked);
    if (!next.delete(idOf(entity))) next.add(idOf(entity));
    props.onCheck(next);
  };
  const onKey = (event: KeyboardEvent, index: number, entity: Entity) => {
    if ((event.target as HTMLElement).tagName === 'INPUT') return;
    if (event.key === 'ArrowDown') { event.preventDefault(); move(index + 1); }
    if (event.key === 'ArrowUp') { event.preventDefault(); move(index - 1); }
    if (event.key === 'Enter') { event.preventDefault(); props.onOpen(entity); }
    if (event.key === ' ') { event.preventDefault(); toggle(entity); }
  };
  return (
    <div class="gridbox" ref={box} tabIndex={0} role="region" aria-label="Entities">
      <table class="grid">
        <thead><tr><th><input type="checkbox" aria-label="Select all" checked={all} onChange={() => props.onCheck(all ? new Set() : new Set(entities.map(idOf)))} /></th><th class="k1">PartitionKey</th><th>RowKey</th>
          {props.columns.map((column) => <th key={column.name} class={isNumber(column.type) ? 'num' : ''} title={column.title}><span class="ellip colname">{column.name}</span>{column.type && <span class={`ty ${column.others ? 'mix' : ''}`}>{column.type}{column.others ? ` +${column.others}` : ''}</span>}</th>)}<th>Timestamp</th></tr></thead>
        <tbody>
          {!props.hasPage && Array.from({ length: 12 }, (_, row) => <tr key={row} class="placeholder"><td colSpan={6}><span class="meter" /></td></tr>)}
          {entities.map((entity, index) => {
            const id = idOf(entity);
            return (
              <tr key={id} tabIndex={0} aria-selected={props.open === id || props.checked.has(id)} onClick={(event) => { if ((event.target as HTMLElement).tagName !== 'INPUT') props.onOpen(entity); }} onKeyDown={(event) => onKey(event, index, entity)}>
                <td><input type="checkbox" aria-label={`Select ${entity.partition} / ${entity.row}`} checked={props.checked.has(id)} onChange={() => toggle(entity)} /></td>
                <td class="k k1" title={entity.partition}><Key text={entity.partition} /></td><td class="k" title={entity.row}><Key text={entity.row} /></td>
                {props.columns.map((column) => <Cell key={column.name} has={entity.values.has(column.name)} value={entity.values.get(column.name) ?? null} column={column} />)}
                <td class="dim" title={entity.timestamp}>{entity.timestamp.slice(5, 19).replace('T', ' ')}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

const CUT = 200;
const Key = ({ text }: { text: string }) => (text === '' ? <span class="estr">""</span> : <bdi>{text.slice(0, CUT)}</bdi>);

function Cell({ has, value, column }: { has: boolean; value: Value | null; column: Column }) {
  const side = isNumber(column.type) ? 'num' : '';
  if (!has) return <td class={`miss ${side}`}><span class="sr">not on this entity</span></td>;
  if (value === null) return <td class={side}><span class="nul">null</span></td>;
  const badge = value.type !== column.type && <span class="ty mix">{value.type}</span>;
  if (value.text === '') return <td class={side}>{badge} <span class="estr">""</span></td>;
  return <td class={`${side} ${value.type === 'Guid' || value.type === 'Int64' ? 'mono' : ''} ${value.type === 'DateTime' || value.text === 'false' ? 'dim' : ''}`} title={value.text.slice(0, 1000)}>{badge} <bdi>{show(value)}</bdi></td>;
}

function show(value: Value): string {
  switch (value.type) {
    case 'Int32': return Number(value.text).toLocaleString('en-US');
    case 'DateTime': return value.text.replace(/T00:00:00(\.0+)?Z$/, '').replace('T', ' ').replace(/(\.\d{3})\d+Z$/, '$1').replace(/Z$/, '');
    case 'Binary': return bytes(Math.floor((value.text.length * 3) / 4));
    default: return value.text.slice(0, CUT);
  }
}

/** A table scan that a filter asks for is red however few it reads; without a filter to read all is what was asked. */
function ResultBar({ page, count, hasFinding, hasFilter }: { page: Page; count: number; hasFinding: boolean; hasFilter: boolean }) {
  const plan = page.plan;
  const scanned = plan?.scanned ?? count;
  const ratio = scanned / Math.max(1, count);
  const isScan = PLAN_CLASS[plan?.kind ?? ''] === 'tscan' && hasFilter;
  const tone = ratio >= 1000 || isScan ? 'bad' : ratio >= 5 ? 'warn' : 'plain';
  return (
    <div class={`resbar ${tone}`} role="status">
      {tone !== 'plain' && <Icon name="warn" small />}
      <b>returned {whole(count)} of {whole(scanned)} scanned · {page.milliseconds < 10 ? page.milliseconds.toFixed(1) : Math.round(page.milliseconds)} ms</b>
      {tone !== 'plain' && <span class="meter warn" title={`${((count / Math.max(1, scanned)) * 100).toFixed(1)} % of the rows read were returned`}><i style={{ width: `${Math.max(2, (count / Math.max(1, scanned)) * 100)}%` }} /></span>}
      <span class="grow" />{tone !== 'plain' && hasFinding && <a href={link('advisor')}>Why so many?</a>}
    </div>
  );
}
