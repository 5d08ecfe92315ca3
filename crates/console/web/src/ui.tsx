// Small parts that every page uses. Text from the server is only ever put in as text.

import uPlot from 'uplot';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { isDark, say, toasts } from './store';
import { PLAN_NAMES } from './format';

const PATHS: Record<string, string> = {
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11', home: 'M2.5 7 8 2.5 13.5 7v6.5h-4V10h-3v3.5h-4z',
  heat: 'M2.5 2.5h11v11h-11zM2.5 6.2h11M2.5 9.8h11M6.2 2.5v11M9.8 2.5v11',
  adv: 'M6 12.5h4M6.5 14.5h3M8 1.8a4.2 4.2 0 0 1 2.4 7.6c-.5.4-.6.8-.6 1.3H6.2c0-.5-.1-.9-.6-1.3A4.2 4.2 0 0 1 8 1.8z',
  live: 'M1.5 8h3l2-5 3 10 2-5h3', table: 'M2 3h12v10H2zM2 6.3h12M6 6.3V13', queue: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  box: 'M2.5 5 8 2.2 13.5 5v6L8 13.8 2.5 11zM2.5 5 8 7.8 13.5 5M8 7.8v6', cluster: 'M3 3h10v4H3zM3 9h10v4H3zM5.5 5h.1M5.5 11h.1',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3', check: 'm3 8.5 3.2 3.2L13 4.8', chev: 'm6 3.5 4.5 4.5L6 12.5',
  search: 'M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2l3.3 3.3', theme: 'M8 2.5a5.5 5.5 0 1 0 0 11z M8 2.5a5.5 5.5 0 0 1 0 11z',
  x: 'm4 4 8 8M12 4l-8 8', eye: 'M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6z',
  up: 'M8 10.5v-8M4.8 5.5 8 2.3l3.2 3.2M2.5 10.5v3h11v-3', down: 'M8 2.5v8M4.8 7.3 8 10.5l3.2-3.2M2.5 10.5v3h11v-3', plus: 'M8 3v10M3 8h10',
  warn: 'M8 2.2 14.3 13H1.7zM8 6.3v3.2M8 11.3v.2', pause: 'M5.5 3.5v9M10.5 3.5v9', play: 'M5 3.2 12.5 8 5 12.8z',
  undo: 'M3 6.5h6.5a3.5 3.5 0 0 1 0 7H6M5.5 4 3 6.5 5.5 9', key: 'M5.2 8.1a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4zM7.2 8.8l6-6M11 5l2 2',
  none: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM4.2 11.8l7.6-7.6', trash: 'M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.6 9h5.8l.6-9',
  folder: 'M2 4h4.5l1.5 1.5h6V13H2z', file: 'M4 2h5.5L12 4.5V14H4zM9.5 2v2.5H12',
};

export function Icon({ name, small = false, class: extra = '' }: { name: string; small?: boolean; class?: string }) {
  return (
    <svg class={`i ${small ? 's' : ''} ${extra}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={PATHS[name]} fill={name === 'theme' ? 'none' : undefined} />
      {name === 'theme' && <path d="M8 2.5v11A5.5 5.5 0 0 0 8 2.5z" fill="currentColor" />}
    </svg>
  );
}

export function Segments<T extends string>(props: {
  label: string; value: T; choices: { value: T; label: string }[]; onPick: (value: T) => void; class?: string;
}) {
  return (
    <div class={`seg ${props.class ?? ''}`} role="group" aria-label={props.label}>
      {props.choices.map((choice) => (
        <button type="button" key={choice.value} aria-pressed={choice.value === props.value} onClick={() => props.onPick(choice.value)}>
          {choice.label}
        </button>
      ))}
    </div>
  );
}

export function Copy({ text, label }: { text: string | (() => string); label: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    const value = typeof text === 'string' ? text : text();
    try {
      await navigator.clipboard.writeText(value);
      setDone(true);
      setTimeout(() => setDone(false), 1400);
      say('Copied');
    } catch {
      say('The browser does not let this page copy', true);
    }
  };
  return (
    <button type="button" class="btn ghost sm icon" aria-label={label} title={label} onClick={copy}>
      <Icon name={done ? 'check' : 'copy'} small />
    </button>
  );
}

export function Empty(props: { icon: string; title: string; children?: ComponentChildren; actions?: ComponentChildren; role?: 'alert' | 'status' }) {
  return (
    <div class="empty" role={props.role}>
      <Icon name={props.icon} />
      <h2>{props.title}</h2>
      {props.children && <p>{props.children}</p>}
      {props.actions && <div class="row wrap">{props.actions}</div>}
    </div>
  );
}

export function ErrorNote({ error, children }: { error: string; children?: ComponentChildren }) {
  return <div class="note bad" role="alert"><Icon name="warn" small /><span class="grow">{error}</span>{children}</div>;
}

export const Meter = ({ share, class: extra = '', width = 64 }: { share: number; class?: string; width?: number }) => (
  <span class={`meter ${extra}`} style={{ width: `${width}px` }}><i style={{ width: `${Math.max(0, Math.min(100, share * 100))}%` }} /></span>
);

export const Chip = ({ kind, children }: { kind: string; children?: ComponentChildren }) => (
  <span class={`chip ${kind}`}>{children ?? PLAN_NAMES[kind] ?? kind}</span>
);

/** The title of a finding, with the shape that it begins with as what it is: a part of a query. */
export function FindingTitle({ title, shape }: { title: string; shape: string | null }) {
  return shape && title.startsWith(`${shape} `) ? <><code>{shape}</code>{title.slice(shape.length)}</> : <>{title}</>;
}

/** A stacked bar of plan kinds; its text names every part. */
export function PlanMix({ counts }: { counts: Record<string, number> }) {
  const entries = Object.entries(counts).filter(([, count]) => count > 0);
  const total = entries.reduce((sum, [, count]) => sum + count, 0);
  if (!total) return <span class="faint">–</span>;
  const text = entries.map(([kind, count]) => `${PLAN_NAMES[kind] ?? kind} ${percent(count / total)}`).join(' · ');
  return (
    <span class="stack mixbar" role="img" title={text} aria-label={`Plan mix: ${text}`}>
      {entries.map(([kind, count]) => <i key={kind} class={`bg-${kind}`} style={{ width: `${(count / total) * 100}%` }} />)}
    </span>
  );
}
/** One digit more where a whole number would say all or nothing. */
export const percent = (share: number) => `${share === 0 || share === 1 || (share >= 0.1 && share < 0.99) ? Math.round(share * 100) : (Math.floor(share * 1000) / 10).toFixed(1)} %`;

/** The value of a token of the stylesheet, now. */
export const css = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A line over time without axes, drawn by uPlot. */
export function Spark({ values, width, height = 28, warn = false }: { values: number[]; width?: number; height?: number; warn?: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const line = () => css(warn ? '--warn' : '--accent');
    const area = () => css(warn ? '--warn-soft' : '--accent-soft');
    const size = () => ({ width: width ?? Math.max(20, element.clientWidth), height });
    const made = new uPlot(
      {
        ...size(),
        padding: [2, 0, 0, 0],
        cursor: { show: false },
        legend: { show: false },
        axes: [{ show: false }, { show: false }],
        scales: { x: { time: false }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
        series: [{}, { stroke: line, fill: area, width: 1.5, points: { show: false } }],
      },
      data(values),
      element,
    );
    plot.current = made;
    const watch = width ? null : new ResizeObserver(() => made.setSize(size()));
    watch?.observe(element);
    return () => { watch?.disconnect(); made.destroy(); plot.current = null; };
  }, [dark, warn, width, height]);
  useEffect(() => { plot.current?.setData(data(values)); }, [values]);
  return <div class="sparkbox" ref={box} aria-hidden="true" style={{ height: `${height}px`, width: width ? `${width}px` : '100%' }} />;
}
const data = (values: number[]): uPlot.AlignedData => {
  const shown = values.length > 1 ? values : [values[0] ?? 0, values[0] ?? 0];
  return [shown.map((_, index) => index), shown];
};

/** A dialog that holds the focus while it is open. */
export function Dialog(props: { title: string; onClose: () => void; children: ComponentChildren; class?: string }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box} class={`form ${props.class ?? ''}`} aria-label={props.title}
      onCancel={(event) => { event.preventDefault(); props.onClose(); }}
      onClick={(event) => { if (event.target === box.current) props.onClose(); }}
    >
      <header class="row"><h2 class="grow">{props.title}</h2>
        <button type="button" class="btn ghost sm icon" aria-label="Close" onClick={props.onClose}><Icon name="x" small /></button></header>
      {props.children}
    </dialog>
  );
}

/** Asks for the name of what is to be dropped. */
export function DropDialog(props: { what: string; name: string; note: string; onDrop: () => Promise<void>; onClose: () => void }) {
  const [typed, setTyped] = useState('');
  const [error, setError] = useState('');
  const drop = async (event: Event) => {
    event.preventDefault();
    if (typed !== props.name) return;
    try { await props.onDrop(); } catch (failure) { setError((failure as Error).message); }
  };
  return (
    <Dialog title={`Drop ${props.what}`} onClose={props.onClose}>
      <form onSubmit={drop}>
        <p>{props.note} This cannot be undone.</p>
        <label class="field"><span>Type <code>{props.name}</code> to drop it</span>
          <input class="inp mono" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} autocomplete="off" /></label>
        {error && <ErrorNote error={error} />}
        <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={props.onClose}>Cancel</button>
          <button type="submit" class="btn danger" disabled={typed !== props.name}>Drop {props.what}</button></footer>
      </form>
    </Dialog>
  );
}

/** Asks for the name of something new. */
export function CreateDialog(props: { what: string; rule: string; pattern: RegExp; onCreate: (name: string) => Promise<void>; onClose: () => void }) {
  const [name, setName] = useState('');
  const [error, setError] = useState('');
  const fits = props.pattern.test(name);
  const create = async (event: Event) => {
    event.preventDefault();
    if (!fits) return;
    try { await props.onCreate(name); } catch (failure) { setError((failure as Error).message); }
  };
  return (
    <Dialog title={`New ${props.what}`} onClose={props.onClose}>
      <form onSubmit={create}>
        <label class="field"><span>Name</span>
          <input class="inp mono" value={name} aria-invalid={name !== '' && !fits} onInput={(event) => { setName(event.currentTarget.value); setError(''); }} autocomplete="off" spellcheck={false} /></label>
        <p class={`hint ${name && !fits ? 'bad' : 'dim'}`}>{props.rule}</p>
        {error && <ErrorNote error={error} />}
        <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={props.onClose}>Cancel</button>
          <button type="submit" class="btn pri" disabled={!fits}>Create</button></footer>
      </form>
    </Dialog>
  );
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div class={`toast ${toast.isBad ? 'isbad' : ''}`} key={toast.id}>
          <span>{toast.text}</span>
          {toast.undo && <button type="button" onClick={toast.undo}>Undo</button>}
        </div>
      ))}
    </div>
  );
}

/** Runs `load` now and when what it depends on changes; keeps the old content meanwhile. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, depends: unknown[]) {
  const [state, setState] = useState<{ value: T | null; error: string; busy: boolean }>({ value: null, error: '', busy: true });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    setState((old) => ({ ...old, busy: true }));
    load(stop.signal).then(
      (value) => !stop.signal.aborted && setState({ value, error: '', busy: false }),
      (error) => !stop.signal.aborted && setState((old) => ({ ...old, error: (error as Error).message, busy: false })),
    );
    return () => stop.abort();
  }, [...depends, turn]);
  return { ...state, again: () => setTurn((count) => count + 1), setValue: (value: T) => setState((old) => ({ ...old, value })) };
}

/** A thin bar for what takes longer than a moment. */
export const Busy = ({ on }: { on: boolean }) => <div class={`busy ${on ? 'on' : ''}`} role="progressbar" aria-label="Loading" aria-hidden={!on} />;
