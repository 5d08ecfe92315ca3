// Code for a proposal of the advisor: keys from a template, what exists already, each write, and the query.
//
// Names and keys are data of clients: they stand in the code as string literals and nowhere else.

import type { Finding } from './advice';

export type Language = 'python' | 'csharp';
interface Piece { text: string; property: string; form: string }
type Proposal = NonNullable<Finding['what_if']>;

/** `Email_{Email:010}` as its pieces. */
function pieces(template: string): Piece[] {
  return [...template.matchAll(/\{([^}:]+)(?::([^}]*))?\}|[^{]+/g)].map(([text, property = '', form = '']) => ({ text: property ? '' : text, property, form }));
}
/** JSON's string literals are those of Python and of C#. */
const quoted = (text: string) => JSON.stringify(text);
const buckets = (form: string) => Number(/^mod(\d+)$/.exec(form)?.[1] ?? 0);
const digits = (form: string) => Number(/^0(\d+)$/.exec(form)?.[1] ?? 0);
const all = (proposal: Proposal) => [...pieces(proposal.partition), ...pieces(proposal.row)];

/** Properties that an entity must have to get the new keys. */
const needed = (proposal: Proposal) => [...new Set(all(proposal).map((piece) => piece.property))].filter((name) => name && !['PartitionKey', 'RowKey', 'Timestamp'].includes(name));

/** Where the new entities go: an index of the same partition is written in one transaction with what it points at. */
const isTogether = (proposal: Proposal) => proposal.is_index && proposal.partition === '{PartitionKey}';
export function place(finding: Finding): string {
  const proposal = finding.what_if;
  if (!proposal || isTogether(proposal)) return finding.table;
  const names = all(proposal).map((piece) => piece.property).filter((name) => name && name !== 'PartitionKey' && name !== 'RowKey');
  const word = (names[0] ?? 'Key').replace(/[^A-Za-z0-9]/g, '');
  return `${finding.table}${proposal.is_index ? `By${word}` : 'New'}`.slice(0, 63);
}

/** The filter that uses the new keys, as the advisor wrote it. */
export function query(finding: Finding): string {
  const line = finding.keys.find((sample) => sample.label === 'query');
  if (!line) return '';
  const of = (name: string, parts: { text: string }[]) => [...parts.map((part) => part.text).join('').matchAll(/(eq|ge|lt) ('(?:[^']|'')*')/g)].map(([, operator, value]) => `${name} ${operator} ${value}`);
  return [...of('PartitionKey', line.partition), ...of('RowKey', line.row)].join(' and ');
}

/** The code, or nothing where the finding proposes no keys. */
export function recipe(finding: Finding, language: Language): string {
  const proposal = finding.what_if;
  if (!proposal) return '';
  return (language === 'python' ? python : csharp)(finding, proposal);
}

function python(finding: Finding, proposal: Proposal): string {
  const value = ({ text, property, form }: Piece) => {
    const own = `entity[${quoted(property)}]`;
    if (!property) return quoted(text);
    if (buckets(form)) return `str(zlib.crc32(str(${own}).encode()) % ${buckets(form)}).zfill(${String(buckets(form) - 1).length})`;
    if (digits(form)) return `str(${own}).zfill(${digits(form)})`;
    if (form === 'reverse') return `newest_first(${own})`;
    return `str(${own})`;
  };
  const key = (template: string) => pieces(template).map(value).join(' + ');
  const uses = (form: RegExp) => all(proposal).some((piece) => form.test(piece.form));
  const [name, target] = [proposal.is_index ? 'index_of' : 'with_new_keys', place(finding)];
  const asked = query(finding);
  const lines = [
    ...(uses(/^reverse$/) ? ['from datetime import datetime, timedelta, timezone'] : []),
    ...(uses(/^mod/) ? ['import zlib'] : []),
    'from azure.data.tables import TableServiceClient',
    '',
    ...(uses(/^reverse$/) ? ['def newest_first(time):', '    ticks = (time - datetime(1, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 10', '    return f"{3155378975999999999 - ticks:019d}"', ''] : []),
    `def ${name}(entity):`,
    `    return {**entity, "PartitionKey": ${key(proposal.partition)}, "RowKey": ${key(proposal.row)}}`,
    '',
    'service = TableServiceClient.from_connection_string(connection_string)',
    `table = service.get_table_client(${quoted(finding.table)})`,
    ...(target === finding.table ? [] : [`${proposal.is_index ? 'index' : 'new'} = service.create_table_if_not_exists(${quoted(target)})`]),
    '',
    '# Once, for what is there already.',
    'for entity in list(table.list_entities()):',
    ...(needed(proposal).length ? [`    if all(name in entity for name in ${JSON.stringify(needed(proposal))}):`] : []),
    `${needed(proposal).length ? '    ' : ''}    ${target === finding.table ? 'table' : proposal.is_index ? 'index' : 'new'}.upsert_entity(${name}(entity))`,
    '',
    ...(proposal.is_index
      ? isTogether(proposal)
        ? ['# With each write: both or none.', `table.submit_transaction([("upsert", entity), ("upsert", ${name}(entity))])`]
        : ['# With each write. The second can fail alone: send it through a queue, or write it again.', 'table.upsert_entity(entity)', `index.upsert_entity(${name}(entity))`]
      : ['# From now on.', `new.upsert_entity(${name}(entity))`]),
    ...(asked ? ['', '# Instead of the scan; what these keys do not say of the filter goes behind them.', `found = ${target === finding.table ? 'table' : proposal.is_index ? 'index' : 'new'}.query_entities(${quoted(asked)})`] : []),
  ];
  return lines.join('\n');
}

function csharp(finding: Finding, proposal: Proposal): string {
  const value = ({ text, property, form }: Piece) => {
    const own = `entity[${quoted(property)}]`;
    if (!property) return quoted(text);
    if (buckets(form)) return `(Crc32.HashToUInt32(Encoding.UTF8.GetBytes("" + ${own})) % ${buckets(form)}).ToString("D${String(buckets(form) - 1).length}")`;
    if (digits(form)) return `Convert.ToInt64(${own}).ToString("D${digits(form)}")`;
    if (form === 'reverse') return `(DateTime.MaxValue.Ticks - entity.GetDateTime(${quoted(property)})!.Value.Ticks).ToString("D19")`;
    return own;
  };
  const key = (template: string) => {
    const parts = pieces(template).map(value);
    return parts.length === 1 && parts[0]?.startsWith('entity[') ? `${parts[0]}.ToString()` : parts.join(' + ');
  };
  const [name, target] = [proposal.is_index ? 'IndexOf' : 'WithNewKeys', place(finding)];
  const into = target === finding.table ? 'table' : proposal.is_index ? 'index' : 'renewed';
  const asked = query(finding);
  const usesHash = all(proposal).some((piece) => buckets(piece.form) > 0);
  return [
    'using Azure.Data.Tables;',
    ...(usesHash ? ['using System.IO.Hashing;', 'using System.Text;'] : []),
    '',
    `static TableEntity ${name}(TableEntity entity) => new(entity)`,
    '{',
    `    PartitionKey = ${key(proposal.partition)},`,
    `    RowKey = ${key(proposal.row)},`,
    '};',
    '',
    `var table = new TableClient(connectionString, ${quoted(finding.table)});`,
    ...(target === finding.table ? [] : [`var ${into} = new TableClient(connectionString, ${quoted(target)});`, `await ${into}.CreateIfNotExistsAsync();`]),
    '',
    '// Once, for what is there already.',
    'foreach (var entity in table.Query<TableEntity>().ToList())',
    ...(needed(proposal).length ? [`    if (${needed(proposal).map((name) => `entity.ContainsKey(${quoted(name)})`).join(' && ')})`] : []),
    `${needed(proposal).length ? '    ' : ''}    await ${into}.UpsertEntityAsync(${name}(entity), TableUpdateMode.Replace);`,
    '',
    ...(proposal.is_index
      ? isTogether(proposal)
        ? ['// With each write: both or none.', 'await table.SubmitTransactionAsync(new[] { entity, IndexOf(entity) }', '    .Select(one => new TableTransactionAction(TableTransactionActionType.UpsertReplace, one)));']
        : ['// With each write. The second can fail alone: send it through a queue, or write it again.', 'await table.UpsertEntityAsync(entity, TableUpdateMode.Replace);', 'await index.UpsertEntityAsync(IndexOf(entity), TableUpdateMode.Replace);']
      : ['// From now on.', 'await renewed.UpsertEntityAsync(WithNewKeys(entity), TableUpdateMode.Replace);']),
    ...(asked ? ['', '// Instead of the scan; what these keys do not say of the filter goes behind them.', `var found = ${into}.Query<TableEntity>(${quoted(asked)});`] : []),
  ].join('\n');
}
