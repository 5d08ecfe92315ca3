// What the advisor says, as the server gives it.

import { signal } from '@preact/signals';
import * as api from './api';
import { findingsCount } from './store';

export interface KeyPart { text: string; new: boolean }
export interface Finding {
  id: string; rule: string; severity: 'info' | 'warning' | 'bad'; title: string; fact: string; pattern: string;
  guide_section: string; advice: string; price: string; account: string; table: string; shape: string | null;
  plan: string | null;
  example: { request: string; at: number; rows_scanned: number; rows_returned: number; total_ms: number } | null;
  keys: { label: string; partition: KeyPart[]; row: KeyPart[] }[];
  what_if: { partition: string; row: string; is_index: boolean } | null;
  requests_per_hour: number; rows_scanned: number; rows_returned: number; weight: number; cost_per_month: number | null;
}

export const findings = signal<Finding[] | null>(null);
export const findingsError = signal('');

export async function loadFindings() {
  try {
    const answer = await api.get<{ findings: Finding[] }>('/api/findings');
    findings.value = answer.findings;
    findingsCount.value = answer.findings.length;
    findingsError.value = '';
  } catch (error) {
    findingsError.value = (error as Error).message;
  }
}
