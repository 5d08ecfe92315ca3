// The $filter box: highlight, completion of property names and operators, and the plan before the query runs.
//
// The text itself is a plain input; what is coloured lies under it and shows the same characters.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { PLAN_CLASS, PLAN_NAMES, whole } from '../format';
import type { FullSight } from '../store';
import { Chip } from '../ui';

const OPERATORS = ['eq', 'ne', 'gt', 'ge', 'lt', 'le'];
const LOGIC = ['and', 'or', 'not'];
const KEYS = ['PartitionKey', 'RowKey', 'Timestamp'];
const TOKEN = /'(?:[^']|'')*'?|[A-Za-z_][\w]*|\d[\w.:-]*|\s+|./gsu;

/** The tokens of a filter with the class that colours each. */
export function highlight(text: string): { text: string; kind: string }[] {
  return (text.match(TOKEN) ?? []).map((token) => {
    if (token.startsWith("'")) return { text: token, kind: 'k-str' };
    if (OPERATORS.includes(token) || LOGIC.includes(token)) return { text: token, kind: 'k-op' };
    if (token === 'PartitionKey' || token === 'RowKey') return { text: token, kind: 'k-key' };
    if (/^(\d|true$|false$)/.test(token)) return { text: token, kind: 'k-num' };
    return { text: token, kind: '' };
  });
}

interface Completion { text: string; type: string; mixed: boolean; coverage: string; isOperator: boolean }

/** What can stand where the caret is: a property, an operator, or a word that joins. */
export function completions(text: string, caret: number, sight: FullSight | null): { from: number; list: Completion[] } {
  const before = text.slice(0, caret);
  if ((before.match(/'/g) ?? []).length % 2 === 1) return { from: caret, list: [] };
  const word = /[A-Za-z_]\w*$/.exec(before)?.[0] ?? '';
  const from = caret - word.length;
  const previous = before.slice(0, from).trim();
  const last = /(\w+|'|\)|\()$/.exec(previous)?.[0] ?? '';
  const starts = (candidate: string) => candidate.toLowerCase().startsWith(word.toLowerCase()) && candidate !== word;
  const plain = (words: string[], type: string): Completion[] => words.filter(starts).map((one) => ({ text: one, type, mixed: false, coverage: '', isOperator: true }));
  if (!previous || LOGIC.includes(last) || last === '(') {
    const properties = (sight?.properties ?? []).map((property): Completion => {
      const types = Object.keys(property.types);
      const count = Object.values(property.types).reduce((sum, one) => sum + one, 0);
      return { text: property.name, type: types.join(' · '), mixed: types.length > 1, coverage: `${Math.round((count / Math.max(1, property.of)) * 100)} %`, isOperator: false };
    });
    const keys = KEYS.map((key): Completion => ({ text: key, type: key === 'Timestamp' ? 'DateTime' : 'String', mixed: false, coverage: '100 %', isOperator: false }));
    return { from, list: [...keys, ...properties].filter((one) => starts(one.text)).slice(0, 8) };
  }
  const isProperty = /^[A-Za-z_]\w*$/.test(last) && !OPERATORS.includes(last);
  if (isProperty && !/^(true|false)$/.test(last) && !OPERATORS.includes(/(\w+)\s+\w+$/.exec(previous)?.[1] ?? '')) return { from, list: word || before.endsWith(' ') ? plain(OPERATORS, 'operator') : [] };
  if (OPERATORS.includes(last)) return { from, list: [] };
  return { from, list: word || before.endsWith(' ') ? plain(['and', 'or'], 'and, or') : [] };
}

export interface PlanState { kind: string; ranges: number; error: string; position: number }

/** Asks the server's planner how a filter would be read. */
export function usePlan(filter: string): PlanState | null {
  const [plan, setPlan] = useState<PlanState | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api.get<{ kind: string; ranges: number }>('/api/plan', { filter }, stop.signal).then(
        (found) => setPlan({ ...found, error: '', position: -1 }),
        (error) => {
          if (stop.signal.aborted) return;
          const message = (error as Error).message;
          const position = Number(/at (?:position )?'?(\d+)'?/.exec(message)?.[1] ?? -1);
          setPlan({ kind: '', ranges: 0, error: message.replace(/ in '.*'\.?$/s, ''), position });
        },
      );
    }, 120);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [filter]);
  return plan;
}

/** How many rows a plan reads, as far as the last look at the table tells. */
function estimate(kind: string, ranges: number, sight: FullSight | null): string {
  if (!sight || !sight.entities) return '';
  if (kind === 'tscan') return ` · ${whole(sight.entities)}${sight.isWhole ? '' : '+'} rows`;
  if (kind === 'pscan') return ` · about ${whole((sight.entities / Math.max(1, sight.partitions)) * ranges)}${sight.isWhole ? '' : '+'} rows`;
  return '';
}

export function PlanChip({ plan, sight }: { plan: PlanState | null; sight: FullSight | null }) {
  if (!plan) return <Chip kind="write">planning</Chip>;
  if (plan.error) return <><Chip kind="tscan">cannot plan</Chip><span class="bad" role="alert">{plan.error}</span></>;
  const kind = PLAN_CLASS[plan.kind] ?? plan.kind;
  const rows = estimate(kind, plan.ranges, sight);
  return <Chip kind={kind}>{PLAN_NAMES[kind] ?? plan.kind} · {plan.ranges} {plan.ranges === 1 ? 'range' : 'ranges'}{rows}</Chip>;
}

export function FilterBox(props: { value: string; sight: FullSight | null; plan: PlanState | null; onInput: (text: string) => void; onRun: () => void; caretAt: number }) {
  const input = useRef<HTMLInputElement>(null);
  const under = useRef<HTMLDivElement>(null);
  const [caret, setCaret] = useState(0);
  const [open, setOpen] = useState(false);
  const [chosen, setChosen] = useState(0);
  const { from, list } = completions(props.value, caret, props.sight);
  const shows = open && list.length > 0;
  useEffect(() => {
    if (props.caretAt < 0) return;
    input.current?.focus();
    input.current?.setSelectionRange(props.caretAt, props.caretAt);
  }, [props.caretAt]);
  const follow = () => { if (under.current && input.current) under.current.scrollLeft = input.current.scrollLeft; };
  const accept = (index: number) => {
    const one = list[index];
    if (!one) return;
    const text = `${props.value.slice(0, from)}${one.text} ${props.value.slice(caret).replace(/^\s+/, '')}`;
    props.onInput(text);
    const at = from + one.text.length + 1;
    setCaret(at);
    setChosen(0);
    requestAnimationFrame(() => { input.current?.focus(); input.current?.setSelectionRange(at, at); follow(); });
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey || !shows)) { event.preventDefault(); setOpen(false); props.onRun(); return; }
    if (!shows) return;
    if (event.key === 'ArrowDown') { event.preventDefault(); setChosen((chosen + 1) % list.length); }
    if (event.key === 'ArrowUp') { event.preventDefault(); setChosen((chosen + list.length - 1) % list.length); }
    if (event.key === 'Tab' || event.key === 'Enter') { event.preventDefault(); accept(chosen); }
    if (event.key === 'Escape') { event.preventDefault(); event.stopPropagation(); setOpen(false); }
  };
  const here = list[chosen];
  return (
    <div class="fboxwrap">
      <div class={`fbox ${props.plan?.error ? 'isbad' : ''}`}>
        <label class="lab" for="filter">$filter</label>
        <div class="ed">
          <div class="under" ref={under} aria-hidden="true">{highlight(props.value).map((token, index) => <span key={index} class={token.kind}>{token.text}</span>)}</div>
          <input ref={input} id="filter" data-slash value={props.value} spellcheck={false} autocomplete="off" autocapitalize="off" placeholder="PartitionKey eq '…' and RowKey ge '…'"
            role="combobox" aria-expanded={shows} aria-controls="completions" aria-autocomplete="list" aria-activedescendant={shows ? `c${chosen}` : undefined} aria-invalid={Boolean(props.plan?.error)}
            onInput={(event) => { props.onInput(event.currentTarget.value); setCaret(event.currentTarget.selectionStart ?? 0); setOpen(true); setChosen(0); follow(); }}
            onSelect={(event) => setCaret(event.currentTarget.selectionStart ?? 0)} onScroll={follow} onKeyDown={onKey} onBlur={() => setTimeout(() => setOpen(false), 150)} />
        </div>
        <span class="go"><button type="button" class="btn pri" onClick={() => { setOpen(false); props.onRun(); }}>Run <span class="hide-s xs keyhint">Ctrl ↵</span></button></span>
      </div>
      {shows && (
        <div class="pop" style={{ left: `min(calc(58px + ${from}ch), calc(100% - 380px))` }}>
          <ul id="completions" role="listbox" aria-label="Completions">
            {list.map((one, index) => (
              <li key={one.text} id={`c${index}`} role="option" aria-selected={index === chosen} onMouseDown={(event) => { event.preventDefault(); accept(index); }}>
                <span class="ellip"><b>{one.text.slice(0, caret - from)}</b>{one.text.slice(caret - from)}</span>
                <span class={`ty ${one.mixed ? 'mix' : ''}`}>{one.type}</span><span class="cov">{one.coverage}</span>
              </li>
            ))}
          </ul>
          <div class="foot">
            {here && !here.isOperator && (here.text === 'PartitionKey' || here.text === 'RowKey'
              ? <><code>{here.text}</code> is a key: comparing it narrows what is read.</>
              : <><code>{here.text}</code> is not a key, so it does not narrow what is read.</>)}
            <span class="keysline"> <kbd>↑</kbd> <kbd>↓</kbd> choose · <kbd>Tab</kbd> accept · <kbd>Esc</kbd> close</span>
          </div>
        </div>
      )}
    </div>
  );
}
