// The servers that share the store, which of them owns a partition, and what the store has counted.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { whole } from '../format';
import { account, health, here, loadServer, resources, server, setQuery } from '../store';
import { Empty, ErrorNote, Icon, Meter, percent, Segments, useLoad } from '../ui';
import { Shell } from '../shell';

/** Partitions by server: of the tables of the account, as far as they were sampled, and its queues. */
interface Owned { tables: Record<string, number>; queues: Record<string, number>; isWhole: boolean }
interface Owner { name: string; isThis: boolean; isSuspended: boolean }
type Wanted = { kind: 'table'; table: string; partition: string } | { kind: 'queue'; queue: string };

export function ClusterPage() {
  const state = health.value;
  if (state && state.engine !== 'cql') {
    return <Shell title="Cluster" label="Cluster"><Empty icon="cluster" title="This server has its store to itself">Rows are in its data folder. Servers share a store with <code>--engine cql</code>.</Empty></Shell>;
  }
  return <Shell title="Cluster" label="Cluster">{state?.failure && <ErrorNote error={state.failure} />}{state && <Shared />}</Shell>;
}

function Shared() {
  const members = server.value?.members ?? [];
  const names = members.map((member) => member.name).sort().join('\n');
  const owned = useLoad(async (signal) => (account.value ? api.get<Owned>('/api/owners', { account: account.value }, signal) : null), [account.value, names]);
  const [wanted, setWanted] = useState<Wanted | null>(wantedHere);
  const owner = useLoad(async (signal) => (wanted && account.value ? { wanted, ...(await askOwner(wanted, signal)) } : null), [account.value, names, wanted]);
  useEffect(() => {
    const timer = setInterval(() => { void loadServer().catch(() => {}); owned.again(); owner.again(); }, 5000);
    return () => clearInterval(timer);
  }, []);
  const nodes = server.value?.nodes ?? [];
  const down = nodes.filter((node) => !node.isUp).length;
  const state = health.value;
  const partitionsOf = (name: string) => (owned.value?.tables[name] ?? 0) + (owned.value?.queues[name] ?? 0);
  const all = members.reduce((sum, member) => sum + partitionsOf(member.name), 0);
  const ownerName = owner.value && !owner.error ? owner.value.owner?.name : undefined;
  return (
    <div class="ov even">
      <div class="col">
      <section class="panel" aria-label="Nodes"><header><span class={`dot ${down ? (down * 2 > nodes.length ? 'bad' : 'warn') : ''}`} /><h2>Nodes of the store</h2><span class="pill">{nodes.length}</span><span class="more dim">{down ? `${down} not connected` : 'all connected'}</span></header>
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Nodes by address"><table><thead><tr><th>Node</th><th>Data centre / rack</th><th>State</th><th class="c-s">Settings</th></tr></thead><tbody>
          {nodes.map((node) => <tr key={node.address}><td class="mono">{node.address}</td><td class="dim">{node.location}</td><td>{node.isUp ? <span class="chip point">connected</span> : <span class="chip tscan">not connected</span>}</td><td class="small dim c-s nodeset" title={node.settings.join('\n')}>{node.settings.slice(0, 2).map((setting) => <div key={setting}>{setting}</div>)}{!node.settings.length && '–'}</td></tr>)}
        </tbody></table></div>
        <div class="body small dim tailnote">As this server sees them now; settings as they were when it started.</div></section>
      <section class="panel" aria-label="Servers"><header><h2>Servers</h2><span class="pill">{members.length}</span><span class="more dim ellip" title={state?.location}>{state?.location}</span></header>
        <div class="scroll-x" tabIndex={0} role="region" aria-label="Servers by name"><table><thead><tr><th>Server</th><th class="c-s">Address</th><th class="num">Partitions</th><th>Share</th></tr></thead><tbody>
          {members.map((member) => <tr key={member.name}><td class="mono">{member.name} {member.isThis && <span class="pill acc">this one</span>} {member.name === ownerName && <span class="pill ok">owner</span>}</td><td class="mono dim c-s">{member.host}</td>
            <td class="num">{owned.value ? `${whole(partitionsOf(member.name))}${owned.value.isWhole ? '' : '+'}` : '–'}</td>
            <td>{all > 0 ? <span class="row"><Meter share={partitionsOf(member.name) / all} />{percent(partitionsOf(member.name) / all)}</span> : <span class="faint">–</span>}</td></tr>)}
        </tbody></table></div>
        {owned.error && <div class="body"><ErrorNote error={owned.error} /></div>}
        <div class="body small dim tailnote">Each partition belongs to one server by its hash; every server answers for every partition. Counted: the queues of <span class="mono">{account.value}</span> and the partitions of its tables, up to a thousand of each table.</div></section>
      </div>
      <div class="col">
      <section class="panel" aria-label="Owner"><header><h2>Owner of a partition</h2><span class="more dim mono">{account.value}</span></header>
        <OwnerForm wanted={wanted} onAsk={(next) => { setWanted(next); setQuery(next.kind === 'queue' ? { queue: next.queue } : { table: next.table, partition: next.partition }); }} />
        {owner.error && <div class="body"><ErrorNote error={owner.error} /></div>}
        <div class="body tailnote wrapany" role="status" data-test="owner">{owner.value && !owner.error ? <Answer wanted={owner.value.wanted} owner={owner.value.owner} /> : <span class="small dim">Blobs have no owner: each server stores the contents that it receives.</span>}</div></section>
      <section class="panel" aria-label="Store"><header><h2>Store</h2></header><div class="scroll-x" tabIndex={0} role="region" aria-label="Figures of the store"><table><thead><tr><th>Figure</th><th class="num">Now</th></tr></thead><tbody>
        {state?.figures.map((figure) => <tr key={figure.name}><td class="figname" title={figure.name}>{figure.help}</td><td class="num">{whole(figure.value)}</td></tr>)}
      </tbody></table></div></section>
      </div>
    </div>
  );
}

/** What the address asks for. */
function wantedHere(): Wanted | null {
  const { query } = here.value;
  const [table, queue] = [query.get('table'), query.get('queue')];
  if (table) return { kind: 'table', table, partition: query.get('partition') ?? '' };
  return queue ? { kind: 'queue', queue } : null;
}

function askOwner(wanted: Wanted, signal: AbortSignal): Promise<{ owner: Owner | null }> {
  const names: Record<string, string> = wanted.kind === 'queue' ? { queue: wanted.queue } : { table: wanted.table, partition: wanted.partition };
  return api.get('/api/owner', { account: account.value, ...names }, signal);
}

function OwnerForm({ wanted, onAsk }: { wanted: Wanted | null; onAsk: (wanted: Wanted) => void }) {
  const [kind, setKind] = useState<Wanted['kind']>(wanted?.kind ?? 'table');
  const [table, setTable] = useState(wanted?.kind === 'table' ? wanted.table : '');
  const [partition, setPartition] = useState(wanted?.kind === 'table' ? wanted.partition : '');
  const [queue, setQueue] = useState(wanted?.kind === 'queue' ? wanted.queue : '');
  const known = (kind === 'table' ? resources.value?.tables : resources.value?.queues) ?? [];
  const submit = (event: Event) => { event.preventDefault(); onAsk(kind === 'table' ? { kind, table, partition } : { kind, queue }); };
  return (
    <form class="body stacked" onSubmit={submit}>
      <Segments label="What has the owner" value={kind} onPick={setKind} choices={[{ value: 'table', label: 'Table' }, { value: 'queue', label: 'Queue' }]} />
      {kind === 'table' ? (
        <div class="keygrid">
          <label class="field"><span>Table</span><input class="inp mono" value={table} list="ownernames" data-slash autocomplete="off" spellcheck={false} onInput={(event) => setTable(event.currentTarget.value)} /></label>
          <label class="field"><span>PartitionKey</span><input class="inp mono" value={partition} autocomplete="off" spellcheck={false} onInput={(event) => setPartition(event.currentTarget.value)} /></label>
        </div>
      ) : <label class="field"><span>Queue</span><input class="inp mono" value={queue} list="ownernames" data-slash autocomplete="off" spellcheck={false} onInput={(event) => setQueue(event.currentTarget.value)} /></label>}
      <datalist id="ownernames">{known.map((one) => <option key={one.name} value={one.name} />)}</datalist>
      <div class="row"><button type="submit" class="btn pri" disabled={!(kind === 'table' ? table : queue)}><Icon name="search" small />Find owner</button></div>
    </form>
  );
}

function Answer({ wanted, owner }: { wanted: Wanted; owner: Owner | null }) {
  const known = wanted.kind === 'table' ? resources.value?.tables : resources.value?.queues;
  const name = wanted.kind === 'table' ? wanted.table : wanted.queue;
  const isUnknown = known && !known.some((one) => one.name.toLowerCase() === name.toLowerCase());
  const what = wanted.kind === 'queue' ? <>Queue <code>{wanted.queue}</code></> : <>Partition {wanted.partition ? <code>{wanted.partition}</code> : <span class="dim">(empty key)</span>} of table <code>{wanted.table}</code></>;
  if (!owner) return <p>{what} has no owner: this server forwards no writes to others.</p>;
  return (
    <>
      <p>{what} belongs to <b class="mono">{owner.name}</b>{owner.isThis && ' (this one)'}.</p>
      {owner.isSuspended && <p class="small"><span class="pill warn">suspended</span> It did not answer this server, which sends it nothing for a few seconds.</p>}
      {isUnknown && <p class="small dim">The account has no {wanted.kind} of this name now. The name alone decides the owner.</p>}
    </>
  );
}
