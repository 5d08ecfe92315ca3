// What the advisor says, as the server gives it.

import { computed, effect, signal } from '@preact/signals';
import * as api from './api';
import { findingsCount, read, write } from './store';

export interface KeyPart { text: string; new: boolean }
/** A figure of the recorded requests as it is, and as it would be with the fix. */
export interface Gain { kind: string; before: number; after: number; basis: string }
export interface Finding {
  id: string; rule: string; severity: 'info' | 'warning' | 'bad'; title: string; fact: string; pattern: string;
  guide_section: string; advice: string; price: string; account: string;
  /** Empty where the finding is about the account. */
  table: string; shape: string | null;
  plan: string | null;
  example: { request: string; at: number; rows_scanned: number; rows_returned: number; total_ms: number } | null;
  keys: { label: string; partition: KeyPart[]; row: KeyPart[] }[];
  gains?: Gain[];
  what_if: { partition: string; row: string; is_index: boolean } | null;
  requests_per_hour: number; rows_scanned: number; rows_returned: number; weight: number; cost_per_month: number | null;
}

/** What a finding is about: a table, or the account where it is about all of its tables. */
export const subject = (finding: Finding) => finding.table || finding.account;

// ---- ignored findings: kept by the browser, by the id of the finding, the oldest forgotten ----

const IGNORED = 'tavola-ignored';
const IGNORED_MAX = 500;
function remembered(): string[] {
  try { const kept = JSON.parse(read(IGNORED) || '[]'); return Array.isArray(kept) ? kept.filter((id) => typeof id === 'string') : []; } catch { return []; }
}
export const ignored = signal<Set<string>>(new Set(remembered()));
function keep(ids: string[]) {
  ignored.value = new Set(ids.slice(-IGNORED_MAX));
  write(IGNORED, JSON.stringify([...ignored.value]));
}
export const ignore = (id: string) => keep([...remembered().filter((known) => known !== id), id]);
export const unignore = (id: string) => keep(remembered().filter((known) => known !== id));

/** All that the server says, and what of it is not ignored. */
export const allFindings = signal<Finding[] | null>(null);
export const findings = computed(() => allFindings.value?.filter((finding) => !ignored.value.has(finding.id)) ?? null);
export const findingsError = signal('');

export async function loadFindings() {
  try {
    const answer = await api.get<{ findings: Finding[] }>('/api/findings');
    allFindings.value = answer.findings;
    findingsError.value = '';
  } catch (error) {
    findingsError.value = (error as Error).message;
  }
}

// ---- proposals that were tried on a copy: the first few when somebody looks at them, the others when asked ----

export interface Hot { key: string; share: number }
export interface Side { rows_scanned: number; rows_returned: number; hottest: Hot | null; hottest_lately: Hot | null; partitions: number; entities: number; bytes: number }
export interface Report { entities: number; is_whole_table: boolean; replayed: number; recorded: number; collisions: { count: number; examples: string[] }; without_key: { count: number; examples: string[] }; before: Side; after: Side; shapes: { shape: string; plan_before: string; plan_after: string; scanned_before: number; scanned_after: number; is_same_result: boolean }[]; cost: { currency: string; before: number; after: number } | null }

/** Proposals that are tried by themselves, and how much of a table for that. */
const TRIED_FIRST = 3;
const TRIED_ENTITIES_MAX = 5000;
/** How old a report may be before a page that is opened again tries again. */
const TRIED_AGE_MS = 10 * 60_000;

const proposal = (finding: Finding) => [finding.id, finding.what_if?.partition, finding.what_if?.row, finding.what_if?.is_index].join('\n');
const reports = signal<Map<string, { at: number; report: Report }>>(new Map());
const trying = new Set<string>();
/** What the last try of a proposal has measured. */
export const reportOf = (finding: Finding) => reports.value.get(proposal(finding))?.report ?? null;

/** Tries a proposal on a copy of its table. */
export async function attempt(finding: Finding, entitiesMax?: number) {
  const key = proposal(finding);
  const wanted = { account: finding.account, table: finding.table, partition: finding.what_if?.partition, row: finding.what_if?.row, isIndex: finding.what_if?.is_index, entitiesMax };
  const report = (await (await api.send('POST', '/api/whatif', { body: JSON.stringify(wanted) })).json()) as Report;
  reports.value = new Map([...reports.value, [key, { at: Date.now(), report }]]);
}

/** Tries the first proposals, one after the other, unless that was done lately. One that fails can be tried by hand. */
export async function attemptFirst(list: Finding[], isOver: () => boolean) {
  for (const finding of list.filter((one) => one.what_if).slice(0, TRIED_FIRST)) {
    const key = proposal(finding);
    if (isOver()) return;
    if (trying.has(key) || Date.now() - (reports.value.get(key)?.at ?? 0) < TRIED_AGE_MS) continue;
    trying.add(key);
    try { await attempt(finding, TRIED_ENTITIES_MAX); } catch { /* its button says why */ } finally { trying.delete(key); }
  }
}

effect(() => { findingsCount.value = findings.value?.length ?? 0; });
