// Import and export of entities, as CSV or JSON lines, a page or a batch at a time, with progress.
//
// A file column may name its type: `Age@type` holds `Edm.Int32` and the like for the value beside it, which is also what
// an export writes. Without it, the type of a CSV value is a string, and that of a JSON value is the one JSON shows.

import Papa from 'papaparse';
import { useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { batchBody, queryEntities, TYPES, writeEntity, type EdmType, type Entity, type Value } from '../entity';
import { whole } from '../format';
import type { Sight } from '../store';
import { Dialog, ErrorNote, Meter, Segments } from '../ui';

interface Line { partition: string; row: string; json: string; number: number }

const BATCH_ENTITIES_MAX = 100;
const BATCH_BYTES_MAX = 3 * 1024 * 1024;
const TYPE_SUFFIX = '@type';

export function ImportDialog(props: { account: string; table: string; onClose: () => void; onDone: () => void }) {
  const [file, setFile] = useState<File | null>(null);
  const [state, setState] = useState({ written: 0, read: 0, share: 0, running: false, done: false, failure: '' });
  const stop = useRef(false);
  const start = async () => {
    if (!file) return;
    stop.current = false;
    setState({ written: 0, read: 0, share: 0, running: true, done: false, failure: '' });
    try {
      await importFile(file, props.account, props.table, () => stop.current, (written, read, share) => setState((old) => ({ ...old, written, read, share })));
      setState((old) => ({ ...old, running: false, done: true, share: 1 }));
      props.onDone();
    } catch (error) {
      setState((old) => ({ ...old, running: false, failure: (error as Error).message }));
      props.onDone();
    }
  };
  return (
    <Dialog title={`Import into ${props.table}`} onClose={() => { stop.current = true; props.onClose(); }}>
      <p>CSV with a header, or JSON lines. <code>PartitionKey</code> and <code>RowKey</code> are needed; entities that exist are replaced. A column <code>Age@type</code> with <code>Edm.Int32</code> gives <code>Age</code> its type.</p>
      <label class="field"><span>File</span><input type="file" accept=".csv,.jsonl,.ndjson,.json,text/csv" onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} /></label>
      {(state.running || state.done || state.failure) && (
        <div class="progress" role="status"><Meter share={state.share} width={220} class={state.failure ? 'warn' : 'ok'} /><span>{whole(state.written)} of {whole(state.read)} read written{state.done ? ', done' : ''}</span></div>
      )}
      {state.failure && <ErrorNote error={`${state.failure} What was written before stays written.`} />}
      <footer class="row"><span class="grow" />
        {state.running ? <button type="button" class="btn" onClick={() => (stop.current = true)}>Stop</button> : <button type="button" class="btn" onClick={props.onClose}>{state.done ? 'Close' : 'Cancel'}</button>}
        <button type="button" class="btn pri" disabled={!file || state.running} onClick={start}>Import</button></footer>
    </Dialog>
  );
}

/** Lines that are held to be put together by partition. */
const HELD_MAX = 2000;

/**
 * Writes a file in batches of one partition each. Lines of several partitions may alternate: a number of them is held
 * and put together. Lines of one entity keep their order.
 */
async function importFile(file: File, account: string, table: string, stopped: () => boolean, report: (written: number, read: number, share: number) => void) {
  const held = new Map<string, Line[]>();
  let [written, read, holding, share] = [0, 0, 0, 0];
  const check = () => { if (stopped()) throw new Error('Stopped.'); };
  const write = async (lines: Line[]) => {
    for (const batch of batches(lines)) {
      check();
      await writeBatch(account, table, batch);
      written += batch.length;
      report(written, read, share);
    }
  };
  const flush = async () => {
    const groups = [...held.values()];
    held.clear();
    holding = 0;
    for (const lines of groups) await write(lines);
  };
  const isCsv = /\.csv$/i.test(file.name) || file.type === 'text/csv';
  for await (const chunk of isCsv ? csvChunks(file) : jsonChunks(file)) {
    for (const { values, number } of chunk.rows) {
      const line = toLine(values, number);
      const lines = held.get(line.partition);
      if (lines) lines.push(line);
      else held.set(line.partition, [line]);
      read++;
      if (++holding >= HELD_MAX) { await flush(); check(); }
    }
    share = chunk.share;
    report(written, read, share);
    check();
  }
  await flush();
  report(written, read, 1);
}

/** Lines of one partition as batches that the service takes: so many, so large, each entity once. */
function* batches(lines: Line[]): Generator<Line[]> {
  let batch: Line[] = [];
  let rows = new Set<string>();
  let size = 0;
  for (const line of lines) {
    if (batch.length && (batch.length >= BATCH_ENTITIES_MAX || size + line.json.length > BATCH_BYTES_MAX || rows.has(line.row))) {
      yield batch;
      [batch, rows, size] = [[], new Set(), 0];
    }
    batch.push(line);
    rows.add(line.row);
    size += line.json.length;
  }
  if (batch.length) yield batch;
}

async function writeBatch(account: string, table: string, lines: Line[]) {
  const first = lines[0];
  if (!first) return;
  const boundary = crypto.randomUUID();
  const body = batchBody(table, `${location.origin}/${account}`, lines, boundary);
  const answer = await api.storage('table', account, 'POST', '$batch', { body, headers: { 'content-type': `multipart/mixed; boundary=batch_${boundary}` } });
  const text = await answer.text();
  const failed = /HTTP\/1\.1 [45]\d\d[^\r\n]*/.exec(text);
  if (failed) {
    const message = /"value"\s*:\s*"((?:[^"\\]|\\.)*)"/.exec(text)?.[1] ?? failed[0];
    throw new Error(`Lines ${first.number} to ${lines[lines.length - 1]?.number}: ${message.split('\\n')[0]}`);
  }
}

function toLine(values: Map<string, Value>, number: number): Line {
  const [partition, row] = [values.get('PartitionKey'), values.get('RowKey')];
  if (!partition || !row) throw new Error(`Line ${number} has no PartitionKey or no RowKey.`);
  for (const key of ['PartitionKey', 'RowKey', 'Timestamp']) values.delete(key);
  return { partition: partition.text, row: row.text, json: writeEntity(partition.text, row.text, values), number };
}

interface Chunk { rows: { values: Map<string, Value>; number: number }[]; share: number }

async function* csvChunks(file: File): AsyncGenerator<Chunk> {
  const queue: Chunk[] = [];
  let wake = () => {};
  let failure: Error | null = null;
  let over = false;
  let number = 1;
  let parser: Papa.Parser | null = null;
  Papa.parse<Record<string, string>>(file, {
    header: true,
    skipEmptyLines: true,
    chunkSize: 512 * 1024,
    chunk: (result, handle) => {
      parser = handle;
      handle.pause();
      queue.push({ rows: result.data.map((raw) => ({ values: csvValues(raw), number: ++number })), share: Math.min(1, (result.meta.cursor ?? 0) / file.size) });
      wake();
    },
    complete: () => { over = true; wake(); },
    error: (error) => { failure = error; wake(); },
  });
  for (;;) {
    const next = queue.shift();
    if (next) { yield next; (parser as Papa.Parser | null)?.resume(); continue; }
    if (failure) throw failure;
    if (over) return;
    await new Promise<void>((resolve) => (wake = resolve));
  }
}

function csvValues(raw: Record<string, string>): Map<string, Value> {
  const values = new Map<string, Value>();
  for (const [name, text] of Object.entries(raw)) {
    if (name.endsWith(TYPE_SUFFIX) || name === '') continue;
    const named = raw[name + TYPE_SUFFIX]?.replace('Edm.', '');
    // An empty cell is no property, unless it says that it is an empty string.
    if (text === '' && named !== 'String' && name !== 'PartitionKey' && name !== 'RowKey') continue;
    values.set(name, { type: TYPES.includes(named as EdmType) ? (named as EdmType) : 'String', text });
  }
  return values;
}

async function* jsonChunks(file: File): AsyncGenerator<Chunk> {
  const reader = file.stream().pipeThrough(new TextDecoderStream()).getReader();
  let [rest, number, taken] = ['', 0, 0];
  for (;;) {
    const { value, done } = await reader.read();
    rest += value ?? '';
    taken += value?.length ?? 0;
    const lines = rest.split('\n');
    rest = done ? '' : (lines.pop() ?? '');
    const rows = lines.flatMap((line) => { number++; return line.trim() ? [{ values: jsonValues(line, number), number }] : []; });
    yield { rows, share: Math.min(1, taken / Math.max(1, file.size)) };
    if (done) return;
  }
}

/** The bounds are not the same on both sides of zero. */
const isInt32 = (number: number) => number >= -2147483648 && number <= 2147483647;

function jsonValues(line: string, number: number): Map<string, Value> {
  let raw: Record<string, unknown>;
  try { raw = JSON.parse(line, function (_, value, ...rest: unknown[]) { return typeof value === 'number' ? { number: (rest[0] as { source?: string } | undefined)?.source ?? String(value) } : value; }); } catch { throw new Error(`Line ${number} is not JSON.`); }
  const values = new Map<string, Value>();
  for (const [name, value] of Object.entries(raw)) {
    if (name.includes('@') || name.startsWith('odata.') || value === null) continue;
    const annotation = String(raw[`${name}@odata.type`] ?? '').replace('Edm.', '') as EdmType;
    const number = typeof value === 'object' ? (value as { number?: string }).number : undefined;
    const text = number ?? (typeof value === 'object' ? JSON.stringify(value) : String(value));
    const type: EdmType = TYPES.includes(annotation) ? annotation : number !== undefined ? (/[.eE]/.test(number) ? 'Double' : isInt32(Number(number)) ? 'Int32' : 'Int64') : typeof value === 'boolean' ? 'Boolean' : 'String';
    values.set(name, { type, text });
  }
  return values;
}

export function ExportDialog(props: { account: string; table: string; filter: string; select: string; sight: Sight | null; onClose: () => void }) {
  const [form, setForm] = useState<'csv' | 'jsonl'>('csv');
  const [scope, setScope] = useState<'all' | 'filter'>(props.filter || props.select ? 'filter' : 'all');
  const [state, setState] = useState({ count: 0, running: false, done: false, failure: '' });
  const stop = useRef<AbortController | null>(null);
  const start = async () => {
    const aborted = (stop.current = new AbortController()).signal;
    setState({ count: 0, running: true, done: false, failure: '' });
    try {
      const query = scope === 'filter' ? { filter: props.filter, select: props.select, top: '' } : { filter: '', select: '', top: '' };
      saveBlob(await exportPages(form, (from) => queryEntities(props.account, props.table, query, from, aborted), (count) => setState((old) => ({ ...old, count }))), `${props.table}.${form}`);
      setState((old) => ({ ...old, running: false, done: true }));
    } catch (error) {
      setState((old) => ({ ...old, running: false, failure: aborted.aborted ? 'Stopped; nothing was saved.' : (error as Error).message }));
    }
  };
  // Only the size of a whole table is known before it is read.
  const known = scope === 'all' && props.sight?.isWhole ? props.sight.entities : 0;
  return (
    <Dialog title={`Export ${props.table}`} onClose={() => { stop.current?.abort(); props.onClose(); }}>
      <div class="row wrap"><Segments label="Form" value={form} onPick={setForm} choices={[{ value: 'csv', label: 'CSV' }, { value: 'jsonl', label: 'JSON lines' }]} />
        <Segments label="Entities" value={scope} onPick={setScope} choices={[{ value: 'all', label: 'Whole table' }, { value: 'filter', label: 'This query' }]} /></div>
      <p class="dim small">{scope === 'all' ? 'Every entity with all of its properties.' : <>{props.filter.trim() ? <>Entities of <code class="wrapany">{props.filter}</code></> : 'Every entity'}{props.select.trim() ? <>, of each <code class="wrapany">{props.select}</code>.</> : '.'}</>} Every value keeps its type, so that an import gives the same entities.</p>
      {(state.running || state.done) && <div class="progress" role="status">{state.done || known ? <Meter share={state.done ? 1 : state.count / Math.max(1, known)} width={220} class="ok" /> : <span class="meter wide"><i class="unknown" /></span>}<span>{whole(state.count)}{known && !state.done ? ` of about ${whole(known)}` : ''} entities{state.done ? ', saved' : ''}</span></div>}
      {state.failure && <ErrorNote error={state.failure} />}
      <footer class="row"><span class="grow" />{state.running ? <button type="button" class="btn" onClick={() => stop.current?.abort()}>Stop</button> : <button type="button" class="btn" onClick={props.onClose}>{state.done ? 'Close' : 'Cancel'}</button>}
        <button type="button" class="btn pri" disabled={state.running} onClick={start}>Export</button></footer>
    </Dialog>
  );
}

type Pages = (from: string) => Promise<{ entities: Entity[]; next: string }>;

async function each(pages: Pages, take: (entities: Entity[]) => void) {
  let from = '';
  do { const page = await pages(from); take(page.entities); from = page.next; } while (from);
}

/** The file, a page at a time. A browser keeps large blobs in files: what was written leaves the memory of the page. */
async function exportPages(form: 'csv' | 'jsonl', pages: Pages, report: (count: number) => void): Promise<Blob> {
  let count = 0;
  const type = { type: 'application/octet-stream' };
  if (form === 'jsonl') {
    const parts: Blob[] = [];
    await each(pages, (entities) => { parts.push(new Blob([toJsonLines(entities)])); report((count += entities.length)); });
    return new Blob(parts, type);
  }
  // Rows are written before all columns are known. Those of a page that has fewer are filled up at the end, for which
  // the length of each is kept.
  const names = new Set<string>();
  const written: { rows: Blob; lengths: number[]; columns: number }[] = [];
  await each(pages, (entities) => {
    for (const entity of entities) for (const name of entity.values.keys()) names.add(name);
    const rows = entities.map((entity) => csvLine([entity.partition, entity.row, entity.timestamp, ...[...names].flatMap((name) => { const value = entity.values.get(name); return value ? [value.text, `Edm.${value.type}`] : ['', '']; })]));
    written.push({ rows: new Blob([rows.join('')]), lengths: rows.map((row) => row.length), columns: names.size });
    report((count += entities.length));
  });
  const parts: (Blob | string)[] = [csvLine(['PartitionKey', 'RowKey', 'Timestamp', ...[...names].flatMap((name) => [name, name + TYPE_SUFFIX])])];
  for (const page of written) parts.push(page.columns === names.size ? page.rows : await filledUp(page, (names.size - page.columns) * 2));
  return new Blob(parts, type);
}

async function filledUp(page: { rows: Blob; lengths: number[] }, missing: number): Promise<Blob> {
  const text = await page.rows.text();
  let at = 0;
  return new Blob(page.lengths.map((length) => `${text.slice(at, (at += length) - 1)}${','.repeat(missing)}\n`));
}

const csvLine = (cells: string[]) => Papa.unparse([cells], { newline: '\n' }) + '\n';

const toJsonLines = (entities: Entity[]) => entities.map((entity) => writeEntity(entity.partition, entity.row, new Map([...entity.values].filter((pair): pair is [string, Value] => pair[1] !== null))) + '\n').join('');

function saveBlob(blob: Blob, name: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
