// Entities as the table service writes and reads them: typed properties, both ways.
//
// A number is kept as its text, so that no digit of an Int64 or a Double is lost on the way through JavaScript.

import * as api from './api';

export const TYPES = ['String', 'Int32', 'Int64', 'Double', 'Boolean', 'DateTime', 'Guid', 'Binary'] as const;
export type EdmType = (typeof TYPES)[number];
export interface Value { type: EdmType; text: string }
/** `null` where a property was asked for by `$select` and is not on the entity. */
export interface Entity { partition: string; row: string; timestamp: string; etag: string; values: Map<string, Value | null> }
export interface Page { entities: Entity[]; next: string; plan: Plan | null; milliseconds: number }
export interface Plan { kind: string; ranges: number; scanned: number; returned: number }

/** JSON with the source text of its numbers, where the browser tells it. */
export function parseKeepingNumbers(text: string): any {
  return JSON.parse(text, function (_, value, ...rest: unknown[]) {
    if (typeof value !== 'number') return value;
    const source = (rest[0] as { source?: string } | undefined)?.source ?? String(value);
    return { number: source };
  });
}

export function readEntity(raw: Record<string, any>): Entity {
  const values = new Map<string, Value | null>();
  for (const [name, value] of Object.entries(raw)) {
    if (name.includes('@') || name.startsWith('odata.') || ['PartitionKey', 'RowKey', 'Timestamp'].includes(name)) continue;
    values.set(name, readValue(value, raw[`${name}@odata.type`]));
  }
  return { partition: raw['PartitionKey'] ?? '', row: raw['RowKey'] ?? '', timestamp: raw['Timestamp'] ?? '', etag: raw['odata.etag'] ?? '', values };
}

function readValue(value: any, annotation?: string): Value | null {
  if (value === null) return null;
  if (annotation) {
    const type = annotation.replace('Edm.', '') as EdmType;
    return { type, text: typeof value === 'object' ? value.number : String(value) };
  }
  if (typeof value === 'boolean') return { type: 'Boolean', text: String(value) };
  if (typeof value === 'object') return { type: /[.eE]/.test(value.number) ? 'Double' : 'Int32', text: value.number };
  return { type: 'String', text: String(value) };
}

/** The JSON of an entity; every type that JSON does not show is named. */
export function writeEntity(partition: string, row: string, values: Map<string, Value>): string {
  const parts = [`"PartitionKey":${JSON.stringify(partition)}`, `"RowKey":${JSON.stringify(row)}`];
  for (const [name, value] of values) {
    const key = JSON.stringify(name);
    if (value.type === 'String') parts.push(`${key}:${JSON.stringify(value.text)}`);
    else if (value.type === 'Boolean') parts.push(`${key}:${value.text === 'true'}`);
    else if (value.type === 'Int32') parts.push(`${key}:${Number(value.text)}`);
    else parts.push(`${JSON.stringify(`${name}@odata.type`)}:"Edm.${value.type}",${key}:${JSON.stringify(value.text)}`);
  }
  return `{${parts.join(',')}}`;
}

/** Why a text is no value of a type; empty if it is one. `fix` names a type that takes it. */
export function checkValue(type: EdmType, text: string): { error: string; fix?: EdmType } {
  const fine = { error: '' };
  switch (type) {
    case 'String': return text.length > 32 * 1024 ? { error: `${text.length.toLocaleString('en-US')} characters; at most 32,768` } : fine;
    case 'Boolean': return text === 'true' || text === 'false' ? fine : { error: 'true or false' };
    case 'Int32':
    case 'Int64': {
      if (!/^[+-]?\d+$/.test(text)) return { error: 'a whole number' };
      const value = BigInt(text.replace('+', ''));
      const bits = type === 'Int32' ? 31n : 63n;
      const [low, high] = [-(2n ** bits), 2n ** bits - 1n];
      if (value > high) return { error: `Above the ${type} maximum ${high.toLocaleString('en-US')}.`, fix: type === 'Int32' ? 'Int64' : 'String' };
      if (value < low) return { error: `Below the ${type} minimum ${low.toLocaleString('en-US')}.`, fix: type === 'Int32' ? 'Int64' : 'String' };
      return fine;
    }
    case 'Double': return /^(NaN|-?Infinity|[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)$/.test(text) ? fine : { error: 'a number' };
    case 'DateTime': return /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,7})?)?(Z|[+-]\d\d:\d\d)?)?$/.test(text) ? fine : { error: 'a time such as 2026-11-16T08:00:00Z' };
    case 'Guid': return /^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$/.test(text) ? fine : { error: 'a guid of 32 hexadecimal digits with hyphens' };
    case 'Binary': return /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text) ? fine : { error: 'Base64' };
  }
}

const quote = (key: string) => `'${api.encode(key.replace(/'/g, "''"))}'`;
export const entityPath = (table: string, partition: string, row: string) => `${api.encode(table)}(PartitionKey=${quote(partition)},RowKey=${quote(row)})`;

export interface Query { filter: string; select: string; top: string }

/** A list of properties with the keys, without which nobody could tell the entities apart. */
const withKeys = (select: string) => {
  const names = select.split(',').map((name) => name.trim()).filter(Boolean);
  return names.includes('*') ? '*' : [...new Set(['PartitionKey', 'RowKey', 'Timestamp', ...names])].join(',');
};

/** One page. `from` is the continuation of the page before, as a query. */
export async function queryEntities(account: string, table: string, query: Query, from: string, signal?: AbortSignal): Promise<Page> {
  const parts: string[] = [];
  if (query.filter.trim()) parts.push(`$filter=${api.encode(query.filter)}`);
  if (query.select.trim()) parts.push(`$select=${api.encode(withKeys(query.select))}`);
  if (query.top) parts.push(`$top=${api.encode(query.top)}`);
  if (from) parts.push(from);
  const started = performance.now();
  const response = await api.storage('table', account, 'GET', `${api.encode(table)}()?${parts.join('&')}`, { signal });
  const body = parseKeepingNumbers(await response.text());
  const milliseconds = performance.now() - started;
  const next: string[] = [];
  const partition = response.headers.get('x-ms-continuation-nextpartitionkey');
  const row = response.headers.get('x-ms-continuation-nextrowkey');
  if (partition !== null) next.push(`NextPartitionKey=${api.encode(partition)}`);
  if (row !== null) next.push(`NextRowKey=${api.encode(row)}`);
  return { entities: (body.value as Record<string, any>[]).map(readEntity), next: next.join('&'), plan: readPlan(response.headers.get('x-tavola-plan')), milliseconds };
}

/** `kind=partition-scan; ranges=1; scanned=10; returned=3` in whatever order. */
function readPlan(text: string | null): Plan | null {
  if (!text) return null;
  const of = (name: string) => new RegExp(`${name}=([\\w-]+)`).exec(text)?.[1] ?? '';
  const kind = of('kind') || of('plan') || (/^[\w-]+/.exec(text)?.[0] ?? '');
  return { kind, ranges: Number(of('ranges')), scanned: Number(of('scanned')), returned: Number(of('returned')) };
}

export async function getEntity(account: string, table: string, partition: string, row: string): Promise<Entity> {
  const response = await api.storage('table', account, 'GET', entityPath(table, partition, row));
  return readEntity(parseKeepingNumbers(await response.text()));
}

/** A change set of inserts or replaces of one partition, as multipart; the server answers with the first failure. */
export function batchBody(table: string, host: string, lines: { partition: string; row: string; json: string }[], boundary: string): string {
  const inner = `changeset_${boundary}`;
  const parts = lines.map((line) => `--${inner}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n` +
    `PUT ${host}/${entityPath(table, line.partition, line.row)} HTTP/1.1\r\nContent-Type: application/json\r\nAccept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0\r\n\r\n${line.json}\r\n`);
  return `--batch_${boundary}\r\nContent-Type: multipart/mixed; boundary=${inner}\r\n\r\n${parts.join('')}--${inner}--\r\n--batch_${boundary}--\r\n`;
}
