// What the advisor says, as the server gives it.

import { computed, effect, signal } from '@preact/signals';
import * as api from './api';
import { findingsCount, read, write } from './store';

export interface KeyPart { text: string; new: boolean }
export interface Finding {
  id: string; rule: string; severity: 'info' | 'warning' | 'bad'; title: string; fact: string; pattern: string;
  guide_section: string; advice: string; price: string; account: string;
  /** Empty where the finding is about the account. */
  table: string; shape: string | null;
  plan: string | null;
  example: { request: string; at: number; rows_scanned: number; rows_returned: number; total_ms: number } | null;
  keys: { label: string; partition: KeyPart[]; row: KeyPart[] }[];
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

effect(() => { findingsCount.value = findings.value?.length ?? 0; });
