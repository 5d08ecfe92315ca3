// What every page shares: the session, the resources of the account at hand, the event stream, the theme, toasts.

import { computed, signal } from '@preact/signals';
import * as api from './api';

export interface Sight { entities: number; bytes: number; partitions: number; isWhole: boolean }
export interface PropertySight { name: string; types: Record<string, number>; of: number }
export interface FullSight extends Sight { properties: PropertySight[] }
export interface Resources {
  tables: { name: string; sight: Sight | null }[];
  queues: { name: string; messages: number }[];
  containers: { name: string; size: { blobs: number; bytes: number; isWhole: boolean } | null }[];
}
export interface Connection { account: string; scheme: string; endpoints: { service: string; url: string }[]; key: string | null }
export interface HealthFigure { name: string; help: string; value: number; isCounter: boolean }
export interface Health {
  failure: string | null; figures: HealthFigure[]; engine: string; location: string; uptime: number;
  disk: { total: number; free: number; data: number; growth: { bytes: number; seconds: number } | null } | null;
}
export interface ServerInfo { version: string; accounts: Connection[]; health: Health; members: { name: string; host: string; isThis: boolean }[]; nodes: { address: string; location: string; isUp: boolean; settings: string[] }[] }
export interface TailItem {
  n: number; at: number; account: string | null; service: string; operation: string | null; resource: string | null;
  text: string; partition: string | null; kind: string; ranges: number | null; scanned: number; returned: number;
  bytesIn: number; bytesOut: number; queued: number; executed: number; total: number; status: number;
  code: string | null; throttled: boolean; id: string; clientId: string | null; weight: number;
}
export interface TableFigures {
  account: string; table: string; requests_per_second: number; rows_scanned_per_second: number; p99_ms: number;
  plans: Record<string, number>;
}
export interface Figures {
  now: number; kinds: string[]; seconds: number[][];
  /** Requests in a second over the last minute. */
  rates?: { accounts: { account: string; perSecond: number }[]; resources: { account: string; service: string; name: string; perSecond: number }[] };
  minute?: {
    seconds: { at: number; requests: number; rows_scanned: number; rows_returned: number; p99_ms: number; errors: number }[];
    requests_per_second: number; rows_scanned_per_second: number; rows_returned_per_second: number; p99_ms: number;
    errors_per_second: number; step: number; tables: TableFigures[];
    queues: { account: string; queue: string; in_per_second: number; out_per_second: number }[];
  };
}

export const session = signal<api.SessionInfo | null>(null);
export const account = signal('');
export const resources = signal<Resources | null>(null);
export const resourcesError = signal('');
export const server = signal<ServerInfo | null>(null);
export const figures = signal<Figures | null>(null);
export const health = signal<Health | null>(null);
/** The last values of each figure of the store. */
export const past = new Map<string, number[]>();
export const tail = signal<TailItem[]>([]);
export const tailPaused = signal(false);
/** Of the requests of the last second, how many the server sent and how many there were. */
export const tailShare = signal({ shown: 0, of: 0 });
/** When the stream last said something; 0 while it has never. */
export const lastSeen = signal(0);
export const clock = signal(Date.now());
export const streamLost = computed(() => lastSeen.value > 0 && clock.value - lastSeen.value > 4000);
export const findingsCount = signal(0);

const TAIL_MAX = 400;
/** Requests that came while the tail was paused. */
let held: TailItem[] = [];

export function pauseTail(paused: boolean) {
  tailPaused.value = paused;
  if (!paused && held.length) {
    tail.value = [...tail.value, ...held].slice(-TAIL_MAX);
    held = [];
  }
}

let source: EventSource | null = null;

/** Opens the one event stream. A browser retries by itself; a session that ended is asked for again. */
export function openStream() {
  source?.close();
  source = new EventSource('/api/events');
  const on = (name: string, take: (data: any) => void) =>
    source?.addEventListener(name, (event) => {
      lastSeen.value = clock.value = Date.now();
      take(JSON.parse((event as MessageEvent).data));
    });
  on('hello', () => {});
  on('figures', (data) => (figures.value = data));
  on('health', (data: Health) => {
    for (const figure of data.figures) past.set(figure.name, [...(past.get(figure.name) ?? []), figure.value].slice(-60));
    health.value = data;
  });
  on('tail', ({ requests: items, of }: { requests: TailItem[]; of: number }) => {
    tailShare.value = { shown: items.length, of };
    if (tailPaused.value) held = [...held, ...items].slice(-TAIL_MAX);
    else tail.value = [...tail.value, ...items].slice(-TAIL_MAX);
  });
  source.onerror = () => {
    if (source?.readyState === EventSource.CLOSED) setTimeout(reconnect, 3000);
  };
}

async function reconnect() {
  try {
    session.value = await api.fetchSession();
    if (session.value.signedIn) openStream();
  } catch {
    setTimeout(reconnect, 3000);
  }
}

setInterval(() => (clock.value = Date.now()), 1000);

export async function loadResources() {
  if (!account.value) return;
  try {
    resources.value = await api.get<Resources>('/api/resources', { account: account.value });
    resourcesError.value = '';
  } catch (error) {
    resourcesError.value = String((error as Error).message);
  }
}

export async function loadServer() {
  server.value = await api.get<ServerInfo>('/api/server');
  health.value = server.value.health;
}

export async function start(info: api.SessionInfo) {
  session.value = info;
  if (!info.signedIn) return;
  const remembered = read('tavola-account');
  if (!info.accounts.includes(account.value)) {
    account.value = info.accounts.includes(remembered) ? remembered : info.accounts[0] ?? '';
  }
  openStream();
  await Promise.all([loadServer(), loadResources()]).catch(() => {});
  // The first look at the tables takes a moment.
  setTimeout(loadResources, 1200);
}

export function chooseAccount(name: string) {
  account.value = name;
  write('tavola-account', name);
  resources.value = null;
  void loadResources();
}

// ---- theme: follows the system unless the user chose one ----

export function read(name: string): string {
  try { return localStorage.getItem(name) ?? ''; } catch { return ''; }
}
export function write(name: string, value: string) {
  try { localStorage.setItem(name, value); } catch { /* a browser may keep nothing */ }
}

const systemDark = matchMedia('(prefers-color-scheme:dark)');
export const theme = signal(read('tavola-theme'));
const systemIsDark = signal(systemDark.matches);
systemDark.addEventListener('change', () => (systemIsDark.value = systemDark.matches));
export const isDark = computed(() => (theme.value ? theme.value === 'dark' : systemIsDark.value));
export function applyTheme() {
  if (theme.value) document.documentElement.dataset['theme'] = theme.value;
}
export function toggleTheme() {
  theme.value = isDark.value ? 'light' : 'dark';
  write('tavola-theme', theme.value);
  applyTheme();
}
applyTheme();

// ---- toasts, and what waits behind them ----

export interface Toast { id: number; text: string; undo?: () => void; isBad?: boolean }
/** The oldest first. */
export const toasts = signal<Toast[]>([]);
let toastId = 0;
/** What waits behind a toast, by its id. */
const waiting = new Map<number, () => void>();
const UNDO_MS = 8000;
/** Toasts that only tell something; one with an Undo stays until it is used or its time is over. */
const TOLD_MAX = 3;

export function say(text: string, isBad = false) {
  const told = toasts.value.filter((toast) => !toast.undo);
  for (const toast of told.slice(0, Math.max(0, told.length - TOLD_MAX + 1))) dismiss(toast.id);
  const id = ++toastId;
  show({ id, text, isBad }, isBad ? 6000 : 2200, () => dismiss(id));
}

/** Does something after a while in which it can be undone. Leaving the page does it at once. */
export function later(text: string, act: () => Promise<unknown>, undone: () => void) {
  const id = ++toastId;
  const run = () => {
    if (!waiting.delete(id)) return;
    dismiss(id);
    act().catch((error) => {
      undone();
      say(`${text}: failed. ${(error as Error).message}`, true);
    });
  };
  waiting.set(id, run);
  show({ id, text, undo: () => { if (waiting.delete(id)) { dismiss(id); undone(); } } }, UNDO_MS, run);
}

function show(toast: Toast, milliseconds: number, then: () => void) {
  toasts.value = [...toasts.value, toast];
  setTimeout(then, milliseconds);
}
function dismiss(id: number) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

/** Does what waits. */
export function flush() {
  for (const run of [...waiting.values()]) run();
}
// A request that begins now has to outlive the page.
addEventListener('pagehide', () => { api.setLeaving(true); flush(); });
addEventListener('pageshow', () => api.setLeaving(false));
addEventListener('hashchange', flush);

// ---- where we are: #/page/part/part?query ----

export interface Place { page: string; parts: string[]; query: URLSearchParams }
function place(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const parts = path.split('/').filter(Boolean).map((text) => { try { return decodeURIComponent(text); } catch { return text; } });
  return { page: parts[0] ?? 'overview', parts: parts.slice(1), query: new URLSearchParams(query) };
}
export const here = signal(place());
addEventListener('hashchange', () => (here.value = place()));
export const link = (page: string, ...parts: string[]) => `#/${[page, ...parts].map(encodeURIComponent).join('/')}`;
export const go = (hash: string) => { location.hash = hash.replace(/^#/, ''); };
/** Changes the query of the place without a step in the history. */
export function setQuery(query: Record<string, string>) {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  const path = location.hash.split('?')[0] ?? '';
  history.replaceState(null, '', text ? `${path}?${text}` : path || '#/');
}
