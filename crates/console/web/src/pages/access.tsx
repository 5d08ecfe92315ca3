// Accounts that this session opens, signing in to others, and shared access signatures.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { account, chooseAccount, figures, go, link, resources, server, session, start } from '../store';
import { short } from '../format';
import { Copy, ErrorNote, Icon, Segments } from '../ui';
import { Shell } from '../shell';

export function AccessPage() {
  return <Shell title="Accounts and SAS" label="Accounts and SAS"><div class="ov even"><div class="col"><SasMaker /></div><div class="col"><Accounts /><SignInMore /></div></div></Shell>;
}

function Accounts() {
  const names = session.value?.accounts ?? [];
  const leave = async () => { await api.signOut(); location.reload(); };
  return (
    <section class="panel" aria-label="Accounts"><header><h2>Accounts</h2><span class="pill">{names.length}</span><button type="button" class="more linkish" onClick={leave}>Sign out</button></header>
      <div class="scroll-x"><table><thead><tr><th>Account</th><th>Key</th><th class="num">Req/s</th><th><span class="sr">Action</span></th></tr></thead><tbody>
        {names.map((name) => {
          const isPublic = Boolean(server.value?.accounts.find((one) => one.account === name)?.key);
          return <tr key={name}><td class="mono">{name}</td><td>{isPublic ? <span class="pill warn" title="Everybody knows the development key">public</span> : <span class="pill ok">secret</span>}</td>
            <td class="num">{short(figures.value?.rates?.accounts.find((one) => one.account === name)?.perSecond ?? 0)}</td>
            <td class="num">{name === account.value ? <span class="dim">selected</span> : <button type="button" class="btn ghost sm" onClick={() => { chooseAccount(name); go(link('overview')); }}>Select</button>}</td></tr>;
        })}
      </tbody></table></div>
      <div class="body small dim tailnote">Accounts are added, rotated and removed on the command line: <code>tavola account add NAME</code>. A secret key is never shown by a console.</div>
    </section>
  );
}

function SignInMore() {
  const [name, setName] = useState('');
  const [secret, setSecret] = useState('');
  const [failure, setFailure] = useState('');
  if (!session.value?.hasOthers) return null;
  const submit = async (event: Event) => {
    event.preventDefault();
    try { await start(await api.signIn(name ? { account: name, key: secret } : { token: secret })); setFailure(''); setSecret(''); } catch (error) { setFailure((error as Error).message); }
  };
  return (
    <section class="panel" aria-label="Open another account"><header><h2>Open another account</h2></header><form class="body stacked" onSubmit={submit}>
      <label class="field"><span>Account; leave empty to use a console token</span><input class="inp mono" value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} /></label>
      <label class="field"><span>{name ? 'Key' : 'Console token'}</span><input class="inp mono" type="password" autocomplete="off" value={secret} onInput={(event) => setSecret(event.currentTarget.value)} /></label>
      {failure && <ErrorNote error={failure} />}<button type="submit" class="btn" disabled={!secret}>Open</button></form></section>
  );
}

const LETTERS: Record<string, [string, string][]> = {
  account: [['r', 'read'], ['w', 'write'], ['d', 'delete'], ['l', 'list'], ['a', 'add'], ['c', 'create'], ['u', 'update'], ['p', 'process']],
  table: [['r', 'query'], ['a', 'add'], ['u', 'update'], ['d', 'delete']],
  queue: [['r', 'read'], ['a', 'add'], ['u', 'update'], ['p', 'process']],
  blob: [['r', 'read'], ['a', 'add'], ['c', 'create'], ['w', 'write'], ['d', 'delete'], ['l', 'list']],
};
const SERVICES: [string, string][] = [['t', 'Table'], ['q', 'Queue'], ['b', 'Blob']];
const TYPES: [string, string][] = [['s', 'service'], ['c', 'container'], ['o', 'object']];
type Kind = 'account' | 'table' | 'queue' | 'blob';

/** The ids of the stored access policies of a table, a queue or a container. */
function usePolicies(kind: Kind, resource: string): string[] {
  const [ids, setIds] = useState<string[]>([]);
  const known = { table: resources.value?.tables, queue: resources.value?.queues, blob: resources.value?.containers, account: undefined }[kind] ?? [];
  const place = kind === 'blob' ? resource.split('/')[0] ?? '' : resource;
  const isKnown = known.some((one) => one.name.toLowerCase() === place.toLowerCase());
  useEffect(() => {
    setIds([]);
    if (kind === 'account' || !isKnown) return;
    const stop = new AbortController();
    const path = `${api.encode(place)}?${kind === 'blob' ? 'restype=container&' : ''}comp=acl`;
    api.storage(kind, account.value, 'GET', path, { signal: stop.signal, headers: { accept: 'application/xml' } })
      .then(api.xml).then((found) => setIds([...found.querySelectorAll('SignedIdentifier > Id')].map((id) => id.textContent ?? '')), () => {});
    return () => stop.abort();
  }, [kind, place, isKnown, account.value]);
  return ids;
}

function SasMaker() {
  const [kind, setKind] = useState<Kind>('table');
  const [resource, setResource] = useState('');
  const [letters, setLetters] = useState('r');
  const [services, setServices] = useState('tqb');
  const [types, setTypes] = useState('sco');
  const [expiry, setExpiry] = useState(() => local(new Date(Date.now() + 7 * 86_400_000)));
  const [starts, setStarts] = useState('');
  const [policy, setPolicy] = useState('');
  const policies = usePolicies(kind, resource);
  const [ip, setIp] = useState('');
  const [https, setHttps] = useState(false);
  const [keys, setKeys] = useState({ fromPartition: '', fromRow: '', toPartition: '', toRow: '' });
  const [token, setToken] = useState('');
  const [failure, setFailure] = useState('');
  const byPolicy = kind !== 'account' && policy !== '';
  const names = { table: resources.value?.tables, queue: resources.value?.queues, blob: resources.value?.containers, account: undefined }[kind] ?? [];
  const pick = (next: Kind) => { setKind(next); setToken(''); setPolicy(''); const allowed = (LETTERS[next] ?? []).map(([letter]) => letter); setLetters([...letters].filter((letter) => allowed.includes(letter)).join('') || 'r'); };
  const flip = (text: string, letter: string, order: [string, string][]) => order.map(([one]) => one).filter((one) => (one === letter ? !text.includes(one) : text.includes(one))).join('');
  const submit = async (event: Event) => {
    event.preventDefault();
    setFailure('');
    try {
      const wanted = { account: account.value, kind, resource, permissions: byPolicy ? '' : letters, services, resourceTypes: types, start: starts ? new Date(starts).toISOString() : '', expiry: !byPolicy && expiry ? new Date(expiry).toISOString() : '', policy: byPolicy ? policy : '', ip, httpsOnly: https, ...keys };
      setToken(((await (await api.send('POST', '/api/sas', { body: JSON.stringify(wanted) })).json()) as { token: string }).token);
    } catch (error) { setToken(''); setFailure((error as Error).message); }
  };
  const endpoint = server.value?.accounts.find((one) => one.account === account.value)?.endpoints.find((one) => one.service.toLowerCase() === (kind === 'account' ? 'table' : kind))?.url ?? '';
  const url = kind === 'account' ? `${endpoint}?${token}` : `${endpoint}/${resource.split('/').map(api.encode).join('/')}?${token}`;
  const boxes = (label: string, choices: [string, string][], value: string, set: (text: string) => void) => (
    <fieldset class="checks"><legend>{label}</legend>{choices.map(([letter, word]) => <label key={letter}><input type="checkbox" checked={value.includes(letter)} onChange={() => { set(flip(value, letter, choices)); setToken(''); }} />{word} <code class="faint">{letter}</code></label>)}</fieldset>
  );
  return (
    <section class="panel" aria-label="Shared access signature"><header><h2>Shared access signature</h2><span class="more dim mono">{account.value}</span></header>
      <form class="body stacked" onSubmit={submit}>
        <Segments label="What it opens" value={kind} onPick={pick} choices={[{ value: 'table', label: 'Table' }, { value: 'queue', label: 'Queue' }, { value: 'blob', label: 'Blob' }, { value: 'account', label: 'Account' }]} />
        {kind === 'account' ? <>{boxes('Services', SERVICES, services, setServices)}{boxes('Resource types', TYPES, types, setTypes)}</>
          : <label class="field"><span>{kind === 'blob' ? 'Container, or container/blob' : kind === 'table' ? 'Table' : 'Queue'}</span><input class="inp mono" value={resource} list="sasnames" onInput={(event) => { setResource(event.currentTarget.value); setToken(''); setPolicy(''); }} /></label>}
        <datalist id="sasnames">{names.map((one) => <option key={one.name} value={one.name} />)}</datalist>
        {kind !== 'account' && <label class="field"><span>Stored access policy</span><select class="inp mono" value={policy} onChange={(event) => { setPolicy(event.currentTarget.value); setToken(''); }}><option value="">none: what is chosen here</option>{policies.map((id) => <option key={id} value={id}>{id}</option>)}</select></label>}
        {byPolicy ? <p class="hint dim">Permissions and expiry are those of the policy; changing or removing it ends the token.</p> : boxes('Permissions', LETTERS[kind] ?? [], letters, setLetters)}
        <div class="row wrap sasrow">{!byPolicy && <label class="field"><span>Starts</span><input class="inp mono" type="datetime-local" value={starts} onInput={(event) => { setStarts(event.currentTarget.value); setToken(''); }} /></label>}{!byPolicy && <label class="field"><span>Expires</span><input class="inp mono" type="datetime-local" value={expiry} onInput={(event) => { setExpiry(event.currentTarget.value); setToken(''); }} /></label>}<label class="field"><span>Address or range</span><input class="inp mono" placeholder="any" value={ip} onInput={(event) => setIp(event.currentTarget.value)} /></label><label class="checkfield"><input type="checkbox" checked={https} onChange={() => setHttps(!https)} />HTTPS only</label></div>
        {kind === 'table' && <details><summary>Only some keys</summary><div class="keygrid">{(['fromPartition', 'fromRow', 'toPartition', 'toRow'] as const).map((name) => <label class="field" key={name}><span>{{ fromPartition: 'First PartitionKey', fromRow: 'First RowKey', toPartition: 'Last PartitionKey', toRow: 'Last RowKey' }[name]}</span><input class="inp mono" value={keys[name]} onInput={(event) => setKeys({ ...keys, [name]: event.currentTarget.value })} /></label>)}</div></details>}
        {failure && <ErrorNote error={failure} />}
        <div class="row"><button type="submit" class="btn pri" disabled={(!byPolicy && (!letters || !expiry)) || (kind !== 'account' && !resource)}><Icon name="key" small />Sign</button></div>
        {token && <><div><div class="sub">Token</div><div class="cs" data-test="sas">{token}<Copy text={token} label="Copy token" /></div></div><div><div class="sub">Address</div><div class="cs">{url}<Copy text={url} label="Copy address" /></div></div><p class="hint dim">Whoever has it can use it until it expires. {byPolicy ? 'It ends early with its policy, or with the key that signed it.' : 'A token ends early only with the key that signed it.'}</p></>}
      </form>
    </section>
  );
}
const local = (time: Date) => new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
