// The frame around every page: side bar with the resources, top bar, Go-to palette, keys.

import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from './api';
import {
  account, chooseAccount, clock, findingsCount, go, health, here, lastSeen, link, loadResources, resources,
  resourcesError, server, session, streamLost, toggleTheme,
} from './store';
import { short, span } from './format';
import { CreateDialog, Icon, Toasts } from './ui';

const PAGES = [
  ['overview', 'Overview', 'home', 'g o'], ['heatmap', 'Heat map', 'heat', 'g h'], ['advisor', 'Advisor', 'adv', 'g a'],
  ['live', 'Live requests', 'live', 'g l'], ['access', 'Accounts and SAS', 'key', 'g s'], ['cluster', 'Cluster', 'cluster', 'g c'],
] as const;
/** The pages that there are: one about servers that share a store is for those alone. */
const pages = () => PAGES.filter(([id]) => id !== 'cluster' || (server.value?.members.length ?? 0) > 0);

export const NAMES: Record<string, { rule: string; pattern: RegExp; create: (name: string) => Promise<unknown> }> = {
  table: {
    rule: '3 to 63 letters and digits, starting with a letter', pattern: /^[A-Za-z][A-Za-z0-9]{2,62}$/,
    create: (name) => api.storage('table', account.value, 'POST', 'Tables', { body: JSON.stringify({ TableName: name }) }),
  },
  queue: {
    rule: '3 to 63 lower-case letters, digits and single hyphens', pattern: /^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/,
    create: (name) => api.storage('queue', account.value, 'PUT', api.encode(name)),
  },
  container: {
    rule: '3 to 63 lower-case letters, digits and single hyphens', pattern: /^(?=.{3,63}$)[a-z0-9]+(-[a-z0-9]+)*$/,
    create: (name) => api.storage('blob', account.value, 'PUT', `${api.encode(name)}?restype=container`),
  },
};

/** Creates a table, queue or container, and opens it. */
export function Create({ what, onClose }: { what: string; onClose: () => void }) {
  const kind = NAMES[what];
  if (!kind) return null;
  const create = async (name: string) => {
    await kind.create(name);
    await loadResources();
    onClose();
    go(link(what, account.value, name));
  };
  return <CreateDialog what={what} rule={kind.rule} pattern={kind.pattern} onCreate={create} onClose={onClose} />;
}

export function Shell(props: { title: ComponentChildren; label: string; actions?: ComponentChildren; children: ComponentChildren; wide?: boolean }) {
  const [open, setOpen] = useState(false);
  const [palette, setPalette] = useState(false);
  useEffect(() => { document.title = `${props.label} · Tavola`; }, [props.label]);
  useEffect(() => setOpen(false), [here.value]);
  useKeys(() => setPalette(true), () => setOpen(false));
  return (
    <div class={`app ${open ? 'nav-open' : ''}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById('main')?.focus(); }}>Skip to content</a>
      <Side />
      <div class="main">
        <header class="top">
          <button type="button" class="btn ghost icon menu-btn" aria-label="Open navigation" aria-controls="side" aria-expanded={open} onClick={() => setOpen(true)}><Icon name="menu" /></button>
          <h1>{props.title}</h1>
          <span class="grow" />
          <button type="button" class="btn ghost hide-s" onClick={() => setPalette(true)}><Icon name="search" /><span>Go to</span><kbd>Ctrl K</kbd></button>
          {props.actions}
        </header>
        <main id="main" tabIndex={-1} class={props.wide ? 'wide' : 'page'}>{props.children}</main>
      </div>
      <div class="scrim" onClick={() => setOpen(false)} />
      {palette && <Palette onClose={() => setPalette(false)} />}
      <Toasts />
    </div>
  );
}

function useKeys(openPalette: () => void, closeNav: () => void) {
  useEffect(() => {
    let pressedG = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); openPalette(); return; }
      if (event.key === 'Escape') closeNav();
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.closest('input,textarea,select,[contenteditable],dialog')) return;
      if (event.key === 't') toggleTheme();
      if (event.key === '/') {
        const field = document.querySelector<HTMLElement>('[data-slash]');
        if (field) { event.preventDefault(); field.focus(); }
      }
      if (event.key === 'g') pressedG = Date.now();
      else if (Date.now() - pressedG < 900) {
        const page = pages().find(([, , , keys]) => keys === `g ${event.key}`);
        pressedG = 0;
        if (page) go(link(page[0]));
      }
    };
    addEventListener('keydown', onKey);
    return () => removeEventListener('keydown', onKey);
  }, []);
}

function Side() {
  const place = here.value;
  const lost = streamLost.value;
  const state = health.value;
  const isBad = Boolean(state?.failure);
  const text = lost ? `Last seen ${span((clock.value - lastSeen.value) / 1000)} ago, retrying`
    : isBad ? 'The store does not answer' : state ? `Healthy · up ${span(state.uptime)}` : 'Connecting';
  return (
    <aside class="side" id="side">
      <div class="brand"><svg viewBox="0 0 18 18" aria-hidden="true" fill="currentColor"><path d="M1 2h16v3.4H1zM1 7h4.4v9H1zM7 7h10v3.7H7zM7 12.3h10V16H7z" /></svg>Tavola<span class="ver faint xs">{server.value?.version}</span></div>
      <nav class="nav" aria-label="Main">
        {pages().map(([id, label, icon]) => (
          <a key={id} href={link(id)} aria-current={place.page === id ? 'page' : undefined}>
            <Icon name={icon} />{label}
            {id === 'advisor' && findingsCount.value > 0 && <span class="pill warn" title={`${findingsCount.value} findings`}>{findingsCount.value}</span>}
          </a>
        ))}
      </nav>
      <Tree />
      <div class="side-foot"><span class={`dot ${isBad ? 'bad' : lost || !state ? 'warn' : ''}`} />
        <span class="grow ellip" title={state?.failure ?? text} role="status">{text}</span>
        <button type="button" class="btn ghost sm icon" aria-label="Switch between light and dark" title="Light / dark (t)" onClick={toggleTheme}><Icon name="theme" /></button></div>
    </aside>
  );
}

function Tree() {
  const [filter, setFilter] = useState('');
  const [creating, setCreating] = useState('');
  const accounts = session.value?.accounts ?? [];
  const found = resources.value;
  const matches = (name: string) => name.toLowerCase().includes(filter.toLowerCase());
  const place = here.value;
  const leaf = (page: string, name: string, count: string) => (
    <a key={name} href={link(page, account.value, name)} title={name}
      aria-current={place.page === page && place.parts[0] === account.value && place.parts[1] === name ? 'page' : undefined}>
      <span>{name}</span><span class="count">{count}</span>
    </a>
  );
  const group = (label: string, what: string, leaves: ComponentChildren[], total: number) => (
    <details open key={what}>
      <summary><Icon name="chev" class="tw" />{label}<span class="count">{total}</span></summary>
      {leaves}
      {!total && <p class="none">None yet</p>}
      <button type="button" class="new" onClick={() => setCreating(what)}><Icon name="plus" small />New {what}</button>
    </details>
  );
  return (
    <div class="tree">
      <div class="find"><label class="sr" for="tf">Filter resources</label>
        <input id="tf" class="inp sm" placeholder="Filter resources" value={filter} onInput={(event) => setFilter(event.currentTarget.value)} /></div>
      {resourcesError.value && <p class="none bad" role="alert">{resourcesError.value}</p>}
      {accounts.map((name) => name === account.value ? (
        <details class="acct" open key={name}>
          <summary><Icon name="chev" class="tw" /><span class="ellip">{name}</span></summary>
          {found ? [
            group('Tables', 'table', found.tables.filter((table) => matches(table.name)).map((table) => leaf('table', table.name, table.sight ? `${short(table.sight.entities)}${table.sight.isWhole ? '' : '+'}` : '')), found.tables.length),
            group('Queues', 'queue', found.queues.filter((queue) => matches(queue.name)).map((queue) => leaf('queue', queue.name, short(queue.messages))), found.queues.length),
            group('Containers', 'container', found.containers.filter((one) => matches(one.name)).map((one) => leaf('container', one.name, one.size ? `${short(one.size.blobs)}${one.size.isWhole ? '' : '+'}` : '')), found.containers.length),
          ] : <p class="none">Loading</p>}
        </details>
      ) : (
        <button type="button" class="other" key={name} onClick={() => { chooseAccount(name); go(link('overview')); }}><Icon name="chev" class="tw" />{name}</button>
      ))}
      {creating && <Create what={creating} onClose={() => setCreating('')} />}
    </div>
  );
}

function Palette({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => { const dialog = box.current; dialog?.showModal(); return () => dialog?.close(); }, []);
  const found = resources.value;
  const targets = useMemo(() => {
    const at = account.value;
    const all: { label: string; hint: string; run: () => void }[] = pages().map(([id, label, , keys]) => ({ label, hint: keys, run: () => go(link(id)) }));
    for (const table of found?.tables ?? []) all.push({ label: table.name, hint: 'table', run: () => go(link('table', at, table.name)) });
    for (const queue of found?.queues ?? []) all.push({ label: queue.name, hint: 'queue', run: () => go(link('queue', at, queue.name)) });
    for (const one of found?.containers ?? []) all.push({ label: one.name, hint: 'container', run: () => go(link('container', at, one.name)) });
    for (const name of session.value?.accounts ?? []) if (name !== at) all.push({ label: name, hint: 'account', run: () => { chooseAccount(name); go(link('overview')); } });
    all.push({ label: 'Switch between light and dark', hint: 't', run: toggleTheme });
    return all;
  }, [found]);
  const list = targets.filter((target) => target.label.toLowerCase().includes(text.toLowerCase())).slice(0, 50);
  const run = (index: number) => { const target = list[index]; if (target) { onClose(); target.run(); } };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') { event.preventDefault(); setChosen(Math.min(chosen + 1, list.length - 1)); }
    if (event.key === 'ArrowUp') { event.preventDefault(); setChosen(Math.max(chosen - 1, 0)); }
    if (event.key === 'Enter') { event.preventDefault(); run(chosen); }
  };
  return (
    <dialog ref={box} class="palette" aria-label="Go to" onCancel={(event) => { event.preventDefault(); onClose(); }} onClick={(event) => { if (event.target === box.current) onClose(); }}>
      <input class="inp" role="combobox" aria-expanded={list.length > 0} aria-controls={list.length ? 'palette-list' : undefined} aria-activedescendant={list.length ? `pal-${chosen}` : undefined}
        aria-label="Go to" placeholder="Table, queue, container, page or command" value={text} autocomplete="off"
        onInput={(event) => { setText(event.currentTarget.value); setChosen(0); }} onKeyDown={onKey} />
      {list.length > 0 ? <ul id="palette-list" role="listbox" aria-label="Places">
        {list.map((target, index) => (
          <li key={`${target.hint}/${target.label}`} role="option" id={`pal-${index}`} aria-selected={index === chosen} onClick={() => run(index)} onMouseMove={() => setChosen(index)}>
            <span class="ellip">{target.label}</span><span class="count">{target.hint}</span>
          </li>
        ))}
      </ul> : <p class="none" role="status">Nothing by that name</p>}
    </dialog>
  );
}
