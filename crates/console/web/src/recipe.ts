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
/** JSON's string literals are those of Python and of C#, but for two line ends. */
const quoted = (text: string) => JSON.stringify(text).replace(/[\u2028\u2029\u0085]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`);
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

const uses = (proposal: Proposal, form: (form: string) => unknown) => all(proposal).some((piece) => piece.property && form(piece.form));

function python(finding: Finding, proposal: Proposal): string {
  const value = ({ text, property, form }: Piece) => {
    const own = `entity[${quoted(property)}]`;
    if (!property) return quoted(text);
    if (buckets(form)) return `bucket(${own}, ${buckets(form)})`;
    if (digits(form)) return `padded(${own}, ${digits(form)})`;
    if (form === 'reverse') return `newest_first(${own})`;
    return `text(${own})`;
  };
  const key = (template: string) => pieces(template).map(value).join(' + ');
  const [name, target] = [proposal.is_index ? 'index_of' : 'with_new_keys', place(finding)];
  const into = target === finding.table ? 'table' : proposal.is_index ? 'index' : 'new';
  const asked = query(finding);
  const lines = [
    'from datetime import datetime, timedelta, timezone',
    ...(uses(proposal, buckets) ? ['import xxhash  # pip install xxhash'] : []),
    'from azure.data.tables import EntityProperty, TableServiceClient',
    '',
    'def plain(value):',
    '    return value.value if isinstance(value, EntityProperty) else value',
    '',
    'def text(value):',
    '    value = plain(value)',
    '    if isinstance(value, bool):',
    '        return str(value).lower()',
    '    if isinstance(value, datetime):',
    '        return f"{value.astimezone(timezone.utc):%Y-%m-%dT%H:%M:%S.%f}0Z"',
    '    return str(value)',
    '',
    ...(uses(proposal, digits) ? ['def padded(value, width):', '    return f"{int(text(value)):0{width}d}"', ''] : []),
    ...(uses(proposal, buckets) ? ['def bucket(value, count):', '    return str(xxhash.xxh3_64_intdigest(text(value).encode()) % count).zfill(len(str(count - 1)))', ''] : []),
    ...(uses(proposal, (form) => form === 'reverse') ? ['def newest_first(value):', '    value = plain(value)', '    if not isinstance(value, datetime):', '        raise ValueError("not a time")', '    ticks = (value - datetime(1, 1, 1, tzinfo=timezone.utc)) // timedelta(microseconds=1) * 10', '    return f"{3155378975999999999 - ticks:019d}"', ''] : []),
    `def ${name}(entity):`,
    `    return {**entity, "PartitionKey": ${key(proposal.partition)}, "RowKey": ${key(proposal.row)}}`,
    '',
    'service = TableServiceClient.from_connection_string(connection_string)',
    `table = service.get_table_client(${quoted(finding.table)})`,
    ...(into === 'table' ? [] : [`${into} = service.create_table_if_not_exists(${quoted(target)})`]),
    '',
    '# Once, for what is there already.',
    'for entity in list(table.list_entities()):',
    '    try:',
    `        made = ${name}(entity)`,
    '    except (KeyError, ValueError):',
    '        continue  # It lacks a property of the new keys, or has it with another type.',
    `    ${into}.upsert_entity(made)`,
    '',
    ...(proposal.is_index
      ? isTogether(proposal)
        ? ['# With each write: both or none.', `table.submit_transaction([("upsert", entity), ("upsert", ${name}(entity))])`]
        : ['# With each write. The second can fail alone: send it through a queue, or write it again.', 'table.upsert_entity(entity)', `index.upsert_entity(${name}(entity))`]
      : ['# From now on.', `new.upsert_entity(${name}(entity))`]),
    ...(asked ? ['', '# Instead of the scan; what these keys do not say of the filter goes behind them.', `found = ${into}.query_entities(${quoted(asked)})`] : []),
  ];
  return lines.join('\n');
}

function csharp(finding: Finding, proposal: Proposal): string {
  const value = ({ text, property, form }: Piece) => {
    const own = `entity[${quoted(property)}]`;
    if (!property) return quoted(text);
    if (buckets(form)) return `(XxHash3.HashToUInt64(Encoding.UTF8.GetBytes(Text(${own}))) % ${buckets(form)}).ToString("D${String(buckets(form) - 1).length}")`;
    if (digits(form)) return `ulong.Parse(Text(${own})).ToString("D${digits(form)}")`;
    if (form === 'reverse') return `(DateTime.MaxValue.Ticks - ((DateTimeOffset)${own}).UtcTicks).ToString("D19")`;
    return `Text(${own})`;
  };
  const key = (template: string) => pieces(template).map(value).join(' + ');
  const [name, target] = [proposal.is_index ? 'IndexOf' : 'WithNewKeys', place(finding)];
  const into = target === finding.table ? 'table' : proposal.is_index ? 'index' : 'renewed';
  const asked = query(finding);
  const fits = [...needed(proposal).map((property) => `entity.TryGetValue(${quoted(property)}, out var value) && value is not null`.replace(/value/g, `value${needed(proposal).indexOf(property)}`)),
    ...all(proposal).filter((piece) => digits(piece.form)).map((piece) => `ulong.TryParse(Text(entity[${quoted(piece.property)}]), out _)`),
    ...all(proposal).filter((piece) => piece.form === 'reverse').map((piece) => `entity[${quoted(piece.property)}] is DateTimeOffset`)];
  return [
    'using System.Globalization;',
    'using Azure.Data.Tables;',
    ...(uses(proposal, buckets) ? ['using System.IO.Hashing; // the package System.IO.Hashing', 'using System.Text;'] : []),
    '',
    'static string Text(object value) => value switch',
    '{',
    '    bool flag => flag ? "true" : "false",',
    '    DateTimeOffset time => time.UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ss.fffffffZ", CultureInfo.InvariantCulture),',
    '    _ => Convert.ToString(value, CultureInfo.InvariantCulture)!,',
    '};',
    '',
    '// Nothing for an entity that lacks a property of the new keys, or has it with another type.',
    `static TableEntity? ${name}(TableEntity entity) =>${fits.length ? ` !(${fits.join(' && ')}) ? null :` : ''} new(entity)`,
    '{',
    `    PartitionKey = ${key(proposal.partition)},`,
    `    RowKey = ${key(proposal.row)},`,
    '};',
    '',
    `var table = new TableClient(connectionString, ${quoted(finding.table)});`,
    ...(into === 'table' ? [] : [`var ${into} = new TableClient(connectionString, ${quoted(target)});`, `await ${into}.CreateIfNotExistsAsync();`]),
    '',
    '// Once, for what is there already.',
    'foreach (var old in table.Query<TableEntity>().ToList())',
    `    if (${name}(old) is { } made) await ${into}.UpsertEntityAsync(made, TableUpdateMode.Replace);`,
    '',
    ...(proposal.is_index
      ? isTogether(proposal)
        ? ['// With each write: both or none.', 'await table.SubmitTransactionAsync(new[] { entity, IndexOf(entity)! }', '    .Select(one => new TableTransactionAction(TableTransactionActionType.UpsertReplace, one)));']
        : ['// With each write. The second can fail alone: send it through a queue, or write it again.', 'await table.UpsertEntityAsync(entity, TableUpdateMode.Replace);', 'await index.UpsertEntityAsync(IndexOf(entity)!, TableUpdateMode.Replace);']
      : ['// From now on.', 'await renewed.UpsertEntityAsync(WithNewKeys(entity)!, TableUpdateMode.Replace);']),
    ...(asked ? ['', '// Instead of the scan; what these keys do not say of the filter goes behind them.', `var found = ${into}.Query<TableEntity>(${quoted(asked)});`] : []),
  ].join('\n');
}
