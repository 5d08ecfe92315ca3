// One entity: typed fields, its JSON, its changes. Merge sends what changed under If-Match, Replace sends all.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { checkValue, entityPath, getEntity, parseKeepingNumbers, readEntity, TYPES, writeEntity, type EdmType, type Entity, type Value } from '../entity';
import { say, type FullSight } from '../store';
import { Copy, ErrorNote, Icon } from '../ui';

interface Field { id: number; name: string; type: EdmType; text: string; was: Value | null; removed: boolean }

export function EntityEditor(props: {
  account: string; table: string; entity: Entity | null; sight: FullSight | null; isPart: boolean;
  onSaved: (entity: Entity, isNew: boolean) => void; onDelete: (entity: Entity) => void; onClose: () => void;
}) {
  const { account, table, entity } = props;
  const [base, setBase] = useState(entity);
  const [partition, setPartition] = useState(entity?.partition ?? '');
  const [row, setRow] = useState(entity?.row ?? '');
  const [fields, setFields] = useState<Field[]>(() => (entity ? fieldsOf(entity) : suggested(props.sight)));
  const [tab, setTab] = useState<'fields' | 'json' | 'changes'>('fields');
  const [failure, setFailure] = useState('');
  const [theirs, setTheirs] = useState<Entity | null>(null);
  const [busy, setBusy] = useState(false);
  // What $select left out is fetched, because Replace sends all that there is.
  const [missing, setMissing] = useState(props.isPart && entity ? 'Properties that $select leaves out are not loaded yet' : '');
  useEffect(() => {
    if (!props.isPart || !entity) return;
    let isOpen = true;
    getEntity(account, table, entity.partition, entity.row).then((full) => {
      if (!isOpen) return;
      setBase(full);
      setFields((old) => withChanges(fieldsOf(full), old.filter(isChanged)));
      setMissing('');
    }, (error) => isOpen && setMissing(`Properties that $select leaves out cannot be loaded: ${(error as Error).message}`));
    return () => { isOpen = false; };
  }, []);

  const change = (index: number, part: Partial<Field>) => setFields(fields.map((field, at) => (at === index ? { ...field, ...part } : field)));
  const live = fields.filter((field) => !field.removed);
  const badKey = entity ? '' : keyProblem(partition) ? 'PartitionKey' : keyProblem(row) ? 'RowKey' : '';
  const badField = live.find((field) => problem(field, live).error);
  const bad = badKey || (badField ? badField.name || 'the property without a name' : '');
  const changed = fields.filter(isChanged);
  const values = (list: Field[]) => new Map(list.map((field): [string, Value] => [field.name, { type: field.type, text: field.text }]));
  const removedAny = fields.some((field) => field.removed && field.was);

  const save = async (how: 'insert' | 'MERGE' | 'PUT', etag?: string) => {
    setBusy(true);
    setFailure('');
    try {
      if (how === 'insert') {
        const answer = await api.storage('table', account, 'POST', api.encode(table), { body: writeEntity(partition, row, values(live)) });
        props.onSaved(readEntity(parseKeepingNumbers(await answer.text())), true);
        say(`Inserted ${partition} / ${row}`);
      } else {
        const body = writeEntity(partition, row, values(how === 'MERGE' ? changed.filter((field) => !field.removed) : live));
        await api.storage('table', account, how, entityPath(table, partition, row), { body, headers: { 'if-match': etag ?? base?.etag ?? '*' } });
        props.onSaved(await getEntity(account, table, partition, row), false);
        say(how === 'MERGE' ? `Merged ${changed.length} ${changed.length === 1 ? 'change' : 'changes'}` : 'Replaced');
      }
      setTheirs(null);
    } catch (error) {
      const code = (error as api.ServerError).code;
      if ((error as api.ServerError).status === 412) setTheirs(await getEntity(account, table, partition, row).catch(() => null));
      setFailure(`${(error as Error).message} (${code})`);
    }
    setBusy(false);
  };
  const title = entity ? `${entity.partition} / ${entity.row}` : 'New entity';
  const blocked = bad ? `Fix ${bad} first` : '';
  const fix = bad ? ` · fix ${bad.length > 24 ? `${bad.slice(0, 24)}…` : bad}` : '';
  return (
    <aside class="ent" aria-label={entity ? 'Edit entity' : 'New entity'}>
      <header>
        <div class="row"><h2 class="mono ellip grow" title={title}><bdi>{title}</bdi></h2>{entity && <Copy text={`${entity.partition}/${entity.row}`} label="Copy keys" />}
          <button type="button" class="btn ghost sm icon" aria-label="Close" onClick={props.onClose}><Icon name="x" small /></button></div>
        {base && <div class="xs faint mono ellip etag" title={base.etag}>{base.etag}</div>}
        <div class="tabs" role="tablist" aria-label="Entity">
          <button type="button" role="tab" aria-selected={tab === 'fields'} onClick={() => setTab('fields')}>Fields</button>
          <button type="button" role="tab" aria-selected={tab === 'json'} onClick={() => setTab('json')}>JSON</button>
          {entity && <button type="button" role="tab" aria-selected={tab === 'changes'} onClick={() => setTab('changes')}>Changes {changed.length > 0 && <span class="pill acc">{changed.length}</span>}</button>}
        </div>
      </header>
      <div class="fields" tabIndex={0} role="region" aria-label="Properties">
        {failure && <ErrorNote error={failure} />}
        {theirs && base && <Conflict theirs={theirs} fields={fields} onKeepMine={() => save(removedAny ? 'PUT' : 'MERGE', theirs.etag)} onTakeTheirs={() => { setBase(theirs); setFields(fieldsOf(theirs)); setTheirs(null); setFailure(''); props.onSaved(theirs, false); }} />}
        {missing && <p class="note warn"><Icon name="warn" small />{missing}. Replace would remove them, so it is off.</p>}
        {tab === 'fields' && (
          <>
            <KeyField name="PartitionKey" value={partition} fixed={Boolean(entity)} onInput={setPartition} />
            <KeyField name="RowKey" value={row} fixed={Boolean(entity)} onInput={setRow} />
            {fields.map((field, index) => <FieldRow key={field.id} field={field} all={live} onChange={(part) => change(index, part)} onRemove={() => (field.was ? change(index, { removed: true }) : setFields(fields.filter((_, at) => at !== index)))} />)}
            <button type="button" class="btn ghost sm addprop" onClick={() => setFields([...fields, { id: nextId(), name: '', type: 'String', text: '', was: null, removed: false }])}><Icon name="plus" small />Add property</button>
          </>
        )}
        {tab === 'json' && <pre class="json" tabIndex={0}>{pretty(writeEntity(partition, row, values(live)))}</pre>}
        {tab === 'changes' && (changed.length ? (
          <dl class="changes">{changed.map((field) => <div key={field.name}><dt class="mono">{field.name}</dt><dd>{field.was ? <del>{field.was.type} {field.was.text}</del> : <span class="faint">not there</span>} → {field.removed ? <span class="bad">removed</span> : <ins>{field.type} {field.text}</ins>}</dd></div>)}</dl>
        ) : <p class="faint small">Nothing changed yet.</p>)}
      </div>
      <footer>
        {entity ? (
          <>
            <button type="button" class="btn pri" disabled={busy || !changed.length || Boolean(bad) || removedAny} title={blocked || (removedAny ? 'A merge removes nothing: replace instead' : '')} onClick={() => save('MERGE')}>Merge {changed.length || ''} {changed.length === 1 ? 'change' : 'changes'}{fix}</button>
            <button type="button" class="btn" disabled={busy || !changed.length || Boolean(bad) || missing !== ''} title={blocked || missing} onClick={() => save('PUT')}>Replace</button>
            <span class="grow" /><button type="button" class="btn ghost danger" onClick={() => props.onDelete(entity)}>Delete</button>
          </>
        ) : <><button type="button" class="btn pri" disabled={busy || Boolean(bad)} title={blocked} onClick={() => save('insert')}>Insert{fix}</button><span class="grow" /><button type="button" class="btn" onClick={props.onClose}>Cancel</button></>}
      </footer>
    </aside>
  );
}

let fieldId = 0;
const nextId = () => ++fieldId;
const fieldsOf = (entity: Entity): Field[] => [...entity.values].flatMap(([name, value]) => (value ? [{ id: nextId(), name, type: value.type, text: value.text, was: value, removed: false }] : []));

/** Fields as they are stored, with the changes that were made meanwhile. */
function withChanges(fields: Field[], changed: Field[]): Field[] {
  const kept = fields.map((field) => { const mine = changed.find((other) => other.name === field.name); return mine ? { ...mine, was: field.was } : field; });
  return [...kept, ...changed.filter((field) => !field.removed && !fields.some((other) => other.name === field.name))];
}

/** The properties that nearly every entity of the table has, for a new one. */
function suggested(sight: FullSight | null): Field[] {
  const common = (sight?.properties ?? []).filter((property) => Object.values(property.types).reduce((sum, count) => sum + count, 0) >= property.of * 0.5);
  return common.slice(0, 20).map((property) => {
    const type = (Object.entries(property.types).sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'String') as EdmType;
    return { id: nextId(), name: property.name, type, text: empty(type), was: null, removed: false };
  });
}
const empty = (type: EdmType): string => ({ String: '', Int32: '0', Int64: '0', Double: '0', Boolean: 'false', DateTime: new Date().toISOString().slice(0, 19) + 'Z', Guid: '00000000-0000-0000-0000-000000000000', Binary: '' })[type];

const isChanged = (field: Field) => field.removed || !field.was || field.was.type !== field.type || field.was.text !== field.text;

function problem(field: Field, all: Field[]): { error: string; fix?: EdmType } {
  if (!field.name) return { error: 'A property needs a name.' };
  if (field.name.length > 255) return { error: 'At most 255 characters.' };
  if (all.some((other) => other !== field && other.name === field.name)) return { error: 'There is another property of this name.' };
  if (['PartitionKey', 'RowKey', 'Timestamp'].includes(field.name)) return { error: 'That is a key, or the time of the last write.' };
  return checkValue(field.type, field.text);
}

/** Why a text is no key; empty if it is one. */
function keyProblem(text: string): string {
  if (/[\/\\#?\u0000-\u001f\u007f-\u009f]/.test(text)) return 'A key cannot hold / \\ # ? or control characters.';
  return text.length > KEY_CHARS_MAX ? `${text.length} characters; at most ${KEY_CHARS_MAX}.` : '';
}
const KEY_CHARS_MAX = 512;

function KeyField(props: { name: string; value: string; fixed: boolean; onInput: (text: string) => void }) {
  const bad = keyProblem(props.value);
  return (
    <div class={`f ${props.fixed ? 'ro' : ''} ${bad && !props.fixed ? 'err' : ''}`}><div class="h"><Icon name="key" small /><label class="nm" for={`f-${props.name}`}>{props.name}</label>{props.fixed && <span class="count">key, fixed</span>}</div>
      <input id={`f-${props.name}`} class="inp sm mono" value={props.value} readOnly={props.fixed} onInput={(event) => props.onInput(event.currentTarget.value)} />
      {bad && !props.fixed && <p class="hint">{bad}</p>}</div>
  );
}

function FieldRow(props: { field: Field; all: Field[]; onChange: (part: Partial<Field>) => void; onRemove: () => void }) {
  const { field } = props;
  const id = `f${field.id}`;
  if (field.removed) return <div class="f gone"><div class="h"><del class="nm">{field.name}</del><button type="button" class="linkish xs undo" onClick={() => props.onChange({ removed: false })}>put back</button></div></div>;
  const { error, fix } = problem(field, props.all);
  const changed = isChanged(field);
  // One element for as long as the type stays, so that typing never loses the focus.
  const isText = field.type === 'String' || field.type === 'Binary';
  const long = field.text.length > 60 || field.text.includes('\n');
  const named = field.name || 'new property';
  return (
    <div class={`f ${error ? 'err' : ''} ${changed && field.was ? 'mod' : ''}`}>
      <div class="h">
        {field.was ? <label class="nm ellip" for={id} title={field.name}>{field.name}</label> : <input class="inp sm mono nameinp" aria-label="Name of the property" placeholder="Name" value={field.name} onInput={(event) => props.onChange({ name: event.currentTarget.value })} />}
        <select aria-label={`Type of ${named}`} value={field.type} onChange={(event) => props.onChange({ type: event.currentTarget.value as EdmType })}>{TYPES.map((type) => <option key={type} value={type}>Edm.{type}</option>)}</select>
        <button type="button" class="x" aria-label={`Remove ${named}`} onClick={props.onRemove}><Icon name="x" small /></button>
      </div>
      {field.type === 'Boolean' ? (
        <select id={id} class="inp sm mono" aria-label={`Value of ${named}`} value={field.text} onChange={(event) => props.onChange({ text: event.currentTarget.value })}>{!['true', 'false'].includes(field.text) && <option value={field.text}>{field.text}</option>}<option value="true">true</option><option value="false">false</option></select>
      ) : isText ? <textarea id={id} class={`inp sm mono ${long ? 'long' : 'line'}`} aria-label={`Value of ${named}`} rows={long ? 4 : 1} aria-invalid={Boolean(error)} value={field.text} onInput={(event) => props.onChange({ text: event.currentTarget.value })} />
        : <input id={id} class="inp sm mono" aria-label={`Value of ${named}`} aria-invalid={Boolean(error)} value={field.text} onInput={(event) => props.onChange({ text: event.currentTarget.value })} />}
      {error ? <p class="hint">{error} {fix && <button type="button" onClick={() => props.onChange({ type: fix })}>Use Edm.{fix}</button>}</p>
        : changed && field.was && <p class="hint">was <code class="was">{field.was.type !== field.type ? `${field.was.type} ` : ''}{field.was.text.slice(0, 60) || '""'}</code> · <button type="button" onClick={() => props.onChange({ text: field.was?.text ?? '', type: field.was?.type ?? 'String' })}>undo</button></p>}
    </div>
  );
}

/** Somebody else changed the entity: both versions beside each other. */
function Conflict(props: { theirs: Entity; fields: Field[]; onKeepMine: () => void; onTakeTheirs: () => void }) {
  const names = [...new Set([...props.theirs.values.keys(), ...props.fields.map((field) => field.name)])];
  const rows = names.map((name) => {
    const mine = props.fields.find((field) => field.name === name && !field.removed);
    const theirs = props.theirs.values.get(name);
    return { name, mine: mine ? mine.text : null, theirs: theirs ? theirs.text : null };
  }).filter((row) => row.mine !== row.theirs);
  const text = (value: string | null) => (value === null ? <span class="faint">not there</span> : value.slice(0, 80) || '""');
  return (
    <div class="conflict" role="alertdialog" aria-label="The entity was changed by someone else">
      <h3>Changed by someone else since you opened it</h3>
      <table><thead><tr><th>Property</th><th>Theirs</th><th>Yours</th></tr></thead>
        <tbody>{rows.map((row) => <tr key={row.name}><td class="mono">{row.name}</td><td class="mono">{text(row.theirs)}</td><td class="mono">{text(row.mine)}</td></tr>)}{!rows.length && <tr><td colSpan={3}>Both are the same.</td></tr>}</tbody></table>
      <div class="row"><button type="button" class="btn sm" onClick={props.onTakeTheirs}>Take theirs</button><button type="button" class="btn sm danger" onClick={props.onKeepMine}>Save mine over it</button></div>
    </div>
  );
}

const pretty = (json: string) => json.replace(/^\{/, '{\n  ').replace(/,"/g, ',\n  "').replace(/\}$/, '\n}');
