// Import and export of entities, as CSV or JSON lines, a page or a batch at a time, with progress.
//
// A file column may name its type: `Age@type` holds `Edm.Int32` and the like for the value beside it, which is also what
// an export writes. Without it, the type of a CSV value is a string, and that of a JSON value is the one JSON shows.

import Papa from 'papaparse';
import { useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { batchBody, queryEntities, TYPES, writeEntity, type EdmType, type Entity, type Value } from '../entity';
import { whole } from '../format';
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

/** Writes a file in batches of one partition each, in the order of the file. */
async function importFile(file: File, account: string, table: string, stopped: () => boolean, report: (written: number, read: number, share: number) => void) {
  let waiting: Line[] = [];
  let size = 0;
  let [written, read] = [0, 0];
  const flush = async () => {
    if (!waiting.length) return;
    const lines = waiting;
    [waiting, size] = [[], 0];
    await writeBatch(account, table, lines);
    written += lines.length;
  };
  const take = async (line: Line) => {
    const last = waiting[0];
    const repeats = waiting.some((other) => other.row === line.row);
    if (last && (last.partition !== line.partition || waiting.length >= BATCH_ENTITIES_MAX || size + line.json.length > BATCH_BYTES_MAX || repeats)) await flush();
    waiting.push(line);
    size += line.json.length;
    read++;
  };
  const isCsv = /\.csv$/i.test(file.name) || file.type === 'text/csv';
  for await (const { rows, share } of isCsv ? csvChunks(file) : jsonChunks(file)) {
    for (const { values, number } of rows) await take(toLine(values, number));
    report(written, read, share);
    if (stopped()) { await flush(); report(written, read, share); throw new Error('Stopped.'); }
  }
  await flush();
  report(written, read, 1);
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

function jsonValues(line: string, number: number): Map<string, Value> {
  let raw: Record<string, unknown>;
  try { raw = JSON.parse(line, function (_, value, ...rest: unknown[]) { return typeof value === 'number' ? { number: (rest[0] as { source?: string } | undefined)?.source ?? String(value) } : value; }); } catch { throw new Error(`Line ${number} is not JSON.`); }
  const values = new Map<string, Value>();
  for (const [name, value] of Object.entries(raw)) {
    if (name.includes('@') || name.startsWith('odata.') || value === null) continue;
    const annotation = String(raw[`${name}@odata.type`] ?? '').replace('Edm.', '') as EdmType;
    const number = typeof value === 'object' ? (value as { number?: string }).number : undefined;
    const text = number ?? (typeof value === 'object' ? JSON.stringify(value) : String(value));
    const type: EdmType = TYPES.includes(annotation) ? annotation : number !== undefined ? (/[.eE]/.test(number) ? 'Double' : Math.abs(Number(number)) > 2147483647 ? 'Int64' : 'Int32') : typeof value === 'boolean' ? 'Boolean' : 'String';
    values.set(name, { type, text });
  }
  return values;
}

export function ExportDialog(props: { account: string; table: string; filter: string; select: string; onClose: () => void }) {
  const [form, setForm] = useState<'csv' | 'jsonl'>('csv');
  const [scope, setScope] = useState<'all' | 'filter'>(props.filter ? 'filter' : 'all');
  const [state, setState] = useState({ count: 0, running: false, done: false, failure: '' });
  const stop = useRef<AbortController | null>(null);
  const start = async () => {
    stop.current = new AbortController();
    setState({ count: 0, running: true, done: false, failure: '' });
    try {
      const entities: Entity[] = [];
      let from = '';
      do {
        const page = await queryEntities(props.account, props.table, { filter: scope === 'filter' ? props.filter : '', select: props.select, top: '' }, from, stop.current.signal);
        entities.push(...page.entities);
        from = page.next;
        setState((old) => ({ ...old, count: entities.length }));
      } while (from);
      save(form === 'csv' ? toCsv(entities) : toJsonLines(entities), `${props.table}.${form}`);
      setState((old) => ({ ...old, running: false, done: true }));
    } catch (error) {
      setState((old) => ({ ...old, running: false, failure: (error as Error).message }));
    }
  };
  return (
    <Dialog title={`Export ${props.table}`} onClose={() => { stop.current?.abort(); props.onClose(); }}>
      <div class="row wrap"><Segments label="Form" value={form} onPick={setForm} choices={[{ value: 'csv', label: 'CSV' }, { value: 'jsonl', label: 'JSON lines' }]} />
        <Segments label="Entities" value={scope} onPick={setScope} choices={[{ value: 'all', label: 'Whole table' }, { value: 'filter', label: 'This filter' }]} /></div>
      <p class="dim small">Every value keeps its type, so that an import gives the same entities.</p>
      {(state.running || state.done) && <div class="progress" role="status"><Meter share={state.done ? 1 : 0.5} width={220} class="ok" /><span>{whole(state.count)} entities{state.done ? ', saved' : ''}</span></div>}
      {state.failure && <ErrorNote error={state.failure} />}
      <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={() => { stop.current?.abort(); props.onClose(); }}>{state.done ? 'Close' : 'Cancel'}</button>
        <button type="button" class="btn pri" disabled={state.running} onClick={start}>Export</button></footer>
    </Dialog>
  );
}

function toCsv(entities: Entity[]): string {
  const names = [...new Set(entities.flatMap((entity) => [...entity.values.keys()]))];
  const fields = ['PartitionKey', 'RowKey', 'Timestamp', ...names.flatMap((name) => [name, name + TYPE_SUFFIX])];
  const data = entities.map((entity) => [entity.partition, entity.row, entity.timestamp, ...names.flatMap((name) => { const value = entity.values.get(name); return value ? [value.text, `Edm.${value.type}`] : ['', '']; })]);
  return Papa.unparse({ fields, data }, { newline: '\n' }) + '\n';
}

const toJsonLines = (entities: Entity[]) => entities.map((entity) => writeEntity(entity.partition, entity.row, new Map([...entity.values].filter((pair): pair is [string, Value] => pair[1] !== null))) + '\n').join('');

export function save(text: string, name: string) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
