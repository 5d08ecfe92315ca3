// A queue: its messages as they stand, hidden ones too, on a log axis; peek; put; its poison queue.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { bytes, short, span, whole } from '../format';
import { clock, figures, go, here, later, link, loadResources, resources, say } from '../store';
import { Busy, Copy, Dialog, DropDialog, Empty, ErrorNote, Icon, Segments, useLoad } from '../ui';
import { Shell } from '../shell';

interface Message { id: string; inserted: string; expires: string; visible: string; tries: number; text: string; receipt: string }
interface QueueView { now: string; count: number; messages: Message[] }

const WEEK = 7 * 86_400;
/** The future on a log axis from now to seven days, so that a lease of seconds and an expiry of days both read. */
const axis = (seconds: number) => (seconds <= 0 ? 0 : Math.min(1, Math.log10(1 + seconds) / Math.log10(1 + WEEK)) * 100);
const TICKS: [string, number, boolean][] = [['now', 0, true], ['10 s', 10, false], ['1 min', 60, true], ['10 min', 600, false], ['2 h', 7200, true], ['1 d', 86_400, false], ['7 d', WEEK, true]];
const POISON = '-poison';
const POISON_TRIES = 5;
const POISON_GROUPS_MAX = 20;

const seconds = (text: string) => Date.parse(text) / 1000;
type State = 'visible' | 'hidden' | 'scheduled';
function stateOf(message: Message, now: number): State {
  if (seconds(message.visible) <= now) return 'visible';
  return message.tries > 0 ? 'hidden' : 'scheduled';
}
const CHIPS: Record<State, string> = { visible: 'range', hidden: 'pscan', scheduled: '' };

export function QueuePage({ account, queue }: { account: string; queue: string }) {
  const view = useLoad((signal) => api.get<QueueView>('/api/queue', { account, queue }, signal), [account, queue]);
  const hasPoison = resources.value?.queues.some((one) => one.name === queue + POISON) ?? false;
  const poison = useLoad((signal) => (hasPoison ? api.get<QueueView>('/api/queue', { account, queue: queue + POISON }, signal) : Promise.resolve(null)), [account, queue, hasPoison]);
  const [chosen, setChosen] = useState('');
  const [gone, setGone] = useState<Set<string>>(new Set());
  const [dialog, setDialog] = useState('');
  const again = () => { view.again(); poison.again(); void loadResources(); };
  useEffect(() => { const timer = setInterval(() => view.again(), 5000); return () => clearInterval(timer); }, []);
  useEffect(() => { if (here.value.query.get('put')) setDialog('put'); }, []);
  void clock.value;
  const rate = figures.value?.minute?.queues.find((one) => one.account === account && one.queue === queue);
  const now = view.value ? seconds(view.value.now) : Date.now() / 1000;
  const messages = (view.value?.messages ?? []).filter((message) => !gone.has(message.id));
  const counted = (state: State) => messages.filter((message) => stateOf(message, now) === state).length;
  const oldest = messages.filter((message) => stateOf(message, now) === 'visible').map((message) => now - Math.max(seconds(message.visible), seconds(message.inserted)));
  const wait = oldest.length ? Math.max(...oldest) : 0;
  const peeked = messages.find((message) => message.id === chosen) ?? messages[0] ?? null;
  const path = (of: string, message: Message) => `${api.encode(of)}/messages/${message.id}?popreceipt=${api.encode(message.receipt)}`;
  const hide = (ids: string[]) => { setGone(new Set([...gone, ...ids])); return () => setGone((old) => new Set([...old].filter((id) => !ids.includes(id)))); };

  const remove = (message: Message) => later('Message deleted', async () => { await api.storage('queue', account, 'DELETE', path(queue, message)); again(); }, hide([message.id]));
  const release = async (message: Message) => {
    try {
      await api.storage('queue', account, 'PUT', `${path(queue, message)}&visibilitytimeout=0`, { body: envelope(message.text) });
      say('The message is visible now');
    } catch (error) { say((error as Error).message, true); }
    again();
  };
  /** Moves messages of the poison queue back: these, or all that there are, those that are not shown too. */
  const putBack = (list: Message[] | 'all') => {
    const many = list === 'all' ? poison.value?.count ?? 0 : list.length;
    const ids = list === 'all' ? undefined : list.map((message) => message.id);
    later(`${whole(many)} ${many === 1 ? 'message' : 'messages'} put back`, async () => {
      const answer = await api.send('POST', '/api/putback', { body: JSON.stringify({ account, from: queue + POISON, to: queue, ids }) });
      const { moved, left, failure } = (await answer.json()) as { moved: number; left: number; failure: string | null };
      setGone(new Set());
      again();
      if (left) say(`${whole(moved)} put back, ${whole(left)} left in the poison queue. ${failure ?? ''}`, true);
    }, hide(ids ?? (poison.value?.messages ?? []).map((message) => message.id)));
  };
  const clear = async () => { await api.storage('queue', account, 'DELETE', `${api.encode(queue)}/messages`); setDialog(''); say('Queue cleared'); again(); };
  const drop = async () => { await api.storage('queue', account, 'DELETE', api.encode(queue)); setDialog(''); say(`Dropped ${queue}`); await loadResources(); go(link('overview')); };
  const actions = (
    <>
      <button type="button" class="btn ghost danger hide-s" onClick={() => setDialog('clear')}>Clear</button>
      <button type="button" class="btn" onClick={() => setDialog('put')}><Icon name="plus" small />Message</button>
      <button type="button" class="btn ghost icon" aria-label="Drop queue" title="Drop queue" onClick={() => setDialog('drop')}><Icon name="trash" small /></button>
    </>
  );
  return (
    <Shell title={<code>{queue}</code>} label={queue} actions={actions}>
      {view.error && <ErrorNote error={view.error}><button type="button" class="btn sm" onClick={again}>Try again</button></ErrorNote>}
      <dl class="panel stats">
        <div><dt>Visible</dt><dd>{whole(counted('visible'))}</dd></div><div><dt>In flight</dt><dd>{whole(counted('hidden'))} <small>hidden</small></dd></div><div><dt>Scheduled</dt><dd>{whole(counted('scheduled'))}</dd></div>
        <div><dt>Oldest visible</dt><dd class={wait > 300 ? 'warn' : ''}>{oldest.length ? span(wait) : '–'}</dd></div><div><dt>In / out per second</dt><dd data-test="rates">{short(rate?.in_per_second ?? 0)} <small>/ {short(rate?.out_per_second ?? 0)}</small></dd></div><div><dt>Poison</dt><dd class={(poison.value?.count ?? 0) > 0 ? 'bad' : ''}>{poison.value ? whole(poison.value.count) : '–'}</dd></div>
      </dl>
      <div class="q"><div class="col">
        <section class="panel" aria-label="Messages"><header><h2>Messages</h2><span class="pill">{whole(view.value?.count ?? 0)}</span>
          <span class="more row"><span class="legend hide-s"><span><i class="lg inv" />hidden</span><span><i class="lg vis" />visible</span><span><i class="lg end" />expiry</span></span></span></header>
          <Busy on={view.busy && !view.value} />
          <div class="ql row0"><span>State</span><span class="c-id">Message</span><span class="c-n num" title="Dequeue count">Tries</span><span class="axis">{TICKS.map(([label, at, always]) => <span key={label} class={always ? '' : 'hide-s'} style={{ left: `${axis(at)}%` }}>{label}</span>)}</span><span class="num">Visible in</span></div>
          <div role="listbox" aria-label="Messages">
            {messages.map((message) => <Row key={message.id} message={message} now={now} isChosen={peeked?.id === message.id} onChoose={() => setChosen(message.id)} />)}
          </div>
          {view.value && !messages.length && <Empty icon="queue" title="No messages" actions={<button type="button" class="btn pri" onClick={() => setDialog('put')}>Put a message</button>}>The queue is empty.</Empty>}
          <div class="row small dim peekline">Showing {messages.length} of {whole(view.value?.count ?? 0)} · looking changes neither tries nor visibility<span class="grow" /><button type="button" class="btn sm" onClick={again}>Look again</button></div>
        </section>
        {hasPoison && <Poison queue={queue + POISON} account={account} messages={(poison.value?.messages ?? []).filter((message) => !gone.has(message.id))} count={poison.value?.count ?? 0} now={now} onPutBack={putBack} />}
      </div>
      {peeked ? <Peek key={peeked.id} message={peeked} now={now} onRelease={() => release(peeked)} onDelete={() => remove(peeked)} /> : <aside class="panel peek" aria-label="Peek"><header><h2>Peek</h2></header><div class="body faint">Choose a message to see its text.</div></aside>}
      </div>
      {dialog === 'put' && <PutDialog account={account} queue={queue} onClose={() => setDialog('')} onDone={again} />}
      {dialog === 'clear' && <DropDialog what="messages" name={queue} note="Every message of the queue goes; the queue stays." onDrop={clear} onClose={() => setDialog('')} />}
      {dialog === 'drop' && <DropDialog what="queue" name={queue} note="All of its messages go with it." onDrop={drop} onClose={() => setDialog('')} />}
    </Shell>
  );
}

export const envelope = (text: string) => {
  const document = new DOMParser().parseFromString('<QueueMessage><MessageText/></QueueMessage>', 'application/xml');
  document.querySelector('MessageText')?.append(text);
  return new XMLSerializer().serializeToString(document);
};

const shortId = (id: string) => `${id.slice(0, 4)}…${id.slice(-4)}`;

function Row({ message, now, isChosen, onChoose }: { message: Message; now: number; isChosen: boolean; onChoose: () => void }) {
  const state = stateOf(message, now);
  const from = Math.max(0, seconds(message.visible) - now);
  const until = Math.max(0, seconds(message.expires) - now);
  const soon = until < 60;
  return (
    <button type="button" class="ql" role="option" aria-selected={isChosen} onClick={onChoose}>
      <span><span class={`chip ${CHIPS[state]}`}>{state}</span></span><span class="mono c-id" title={message.id}>{shortId(message.id)}</span><span class={`num c-n ${message.tries > 2 ? 'warn' : 'dim'}`}>{message.tries}</span>
      <span class="tl">{from > 0 && <i class="inv" style={{ left: '0', width: `${axis(from)}%` }} />}<i class="vis" style={{ left: `${axis(from)}%`, width: `${Math.max(0, axis(until) - axis(from))}%` }} /><i class="end" style={{ left: `calc(${axis(until)}% - 2px)` }} /></span>
      <span class={`num ${soon ? 'bad' : 'dim'}`}>{soon ? `expires ${span(until)}` : from > 0 ? span(from) : 'now'}</span>
    </button>
  );
}

/** A text as JSON, if it is; also from Base64, as many clients write it. */
function decoded(text: string): { json: string | null; plain: string; wasBase64: boolean } {
  const asJson = (value: string) => { try { return JSON.stringify(JSON.parse(value), null, 2); } catch { return null; } };
  let plain = text;
  let wasBase64 = false;
  if (/^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text) && text.length >= 4) {
    try { plain = new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))); wasBase64 = true; } catch { plain = text; }
  }
  return { json: asJson(text) ?? asJson(plain), plain, wasBase64 };
}

function Peek({ message, now, onRelease, onDelete }: { message: Message; now: number; onRelease: () => void; onDelete: () => void }) {
  const { json, plain, wasBase64 } = decoded(message.text);
  const [form, setForm] = useState<'json' | 'text' | 'raw'>(json ? 'json' : 'text');
  const text = form === 'json' && json ? json : form === 'text' ? plain : message.text;
  const state = stateOf(message, now);
  return (
    <aside class="panel peek" aria-label="Peek">
      <header><h2>Peek</h2><code class="dim" title={message.id}>{shortId(message.id)}</code><span class="more row"><Copy text={message.text} label="Copy body" /></span></header>
      <div class="body">
        <Segments label="Decode" value={form} onPick={setForm} choices={[...(json ? [{ value: 'json' as const, label: 'JSON' }] : []), { value: 'text', label: wasBase64 ? 'Text' : 'Text' }, { value: 'raw', label: wasBase64 ? 'Base64' : 'As sent' }]} />
        <pre tabIndex={0} data-test="peek">{text}</pre>
        <dl class="kv"><dt>State</dt><dd><span class={`chip ${CHIPS[state]}`}>{state}{state !== 'visible' ? ` for ${span(seconds(message.visible) - now)}` : ''}</span></dd>
          <dt>Inserted</dt><dd>{message.inserted.slice(11, 19)} <span class="dim">{span(now - seconds(message.inserted))} ago</span></dd><dt>Tries</dt><dd>{message.tries} {message.tries > 2 && <span class="warn">of {POISON_TRIES}, as most workers count</span>}</dd>
          {state !== 'visible' && <><dt>Visible again</dt><dd>{message.visible.slice(11, 19)}</dd></>}
          <dt>Expires</dt><dd>{message.expires.startsWith('9999') ? 'never' : message.expires.slice(0, 19).replace('T', ' ')}</dd><dt>Size</dt><dd>{bytes(new Blob([message.text]).size)} <span class="dim">of 64 kB</span></dd></dl>
        <div class="row wrap peekacts">{state !== 'visible' && <button type="button" class="btn" onClick={onRelease}>Make visible now</button>}<button type="button" class="btn ghost danger" onClick={onDelete}>Delete</button></div>
      </div>
    </aside>
  );
}

/** What a worker wrote into a message, if it did: `error`, `exception`, `reason`, `message`. */
function reasonOf(message: Message): string {
  const { json, plain } = decoded(message.text);
  const value = json ? JSON.parse(json) : null;
  const found = value && typeof value === 'object' ? value.error ?? value.exception ?? value.reason ?? value.message : null;
  return found ? String(typeof found === 'object' ? JSON.stringify(found) : found) : plain.slice(0, 80);
}
/** Errors are alike if they differ in numbers and ids only. */
const alike = (reason: string) => reason.replace(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, '#').replace(/\d+/g, '#').slice(0, 200);

function Poison(props: { queue: string; account: string; messages: Message[]; count: number; now: number; onPutBack: (list: Message[] | 'all') => void }) {
  const groups = new Map<string, Message[]>();
  for (const message of props.messages) groups.set(alike(reasonOf(message)), [...(groups.get(alike(reasonOf(message))) ?? []), message]);
  const sorted = [...groups.values()].sort((a, b) => b.length - a.length);
  const isPart = props.count > props.messages.length;
  return (
    <section class="panel" aria-label="Poison"><header><h2>Poison</h2><a class="mono dim" href={link('queue', props.account, props.queue)}>{props.queue}</a><span class="pill bad">{whole(props.count)}</span>
      <span class="more row">{props.messages.length > 0 && <button type="button" class="btn sm" onClick={() => props.onPutBack('all')}>Put all {whole(props.count)} back</button>}</span></header>
      {props.messages.length ? (
        <><div class="scroll-x" tabIndex={0} role="region" aria-label="Poison messages by error"><table class="small poison"><thead><tr><th>Error or text</th><th class="num">Messages</th><th class="num">Tries</th><th class="c-s">Oldest</th><th><span class="sr">Action</span></th></tr></thead>
          <tbody>{sorted.slice(0, POISON_GROUPS_MAX).map((group) => {
            const first = group[0];
            if (!first) return null;
            const oldest = Math.min(...group.map((message) => seconds(message.inserted)));
            return <tr key={first.id}><td class="ellip poisontext" title={group.map((message) => message.id).slice(0, 20).join('\n')}><bdi>{reasonOf(first)}</bdi></td><td class="num">{whole(group.length)}{isPart ? '+' : ''}</td><td class="num bad">{Math.max(...group.map((message) => message.tries))}</td><td class="dim c-s">{span(props.now - oldest)} ago</td><td class="num"><button type="button" class="btn ghost sm" onClick={() => props.onPutBack(group)}>Put {group.length === 1 ? '' : `${group.length} `}back</button></td></tr>;
          })}</tbody></table></div>
          {(sorted.length > POISON_GROUPS_MAX || isPart) && <div class="small dim poisonfoot">{sorted.length > POISON_GROUPS_MAX && `${sorted.length - POISON_GROUPS_MAX} more errors. `}{isPart && `Grouped from the first ${whole(props.messages.length)} messages.`}</div>}</>
      ) : <p class="quietline"><Icon name="check" class="ok" />Nothing was given up on.</p>}
    </section>
  );
}

function PutDialog(props: { account: string; queue: string; onClose: () => void; onDone: () => void }) {
  const [text, setText] = useState('');
  const [asBase64, setAsBase64] = useState(false);
  const [delay, setDelay] = useState('0');
  const [ttl, setTtl] = useState('604800');
  const [failure, setFailure] = useState('');
  const put = async (event: Event) => {
    event.preventDefault();
    try {
      const body = asBase64 ? btoa(String.fromCharCode(...new TextEncoder().encode(text))) : text;
      await api.storage('queue', props.account, 'POST', `${api.encode(props.queue)}/messages?visibilitytimeout=${api.encode(delay || '0')}&messagettl=${api.encode(ttl || '604800')}`, { body: envelope(body) });
      say('Message put');
      props.onDone();
      props.onClose();
    } catch (error) { setFailure((error as Error).message); }
  };
  return (
    <Dialog title={`Put a message into ${props.queue}`} onClose={props.onClose}>
      <form onSubmit={put}>
        <label class="field"><span>Text</span><textarea class="inp mono long" rows={7} value={text} onInput={(event) => setText(event.currentTarget.value)} /></label>
        <div class="row wrap"><label class="field short"><span>Visible after, s</span><input class="inp mono" inputMode="numeric" value={delay} onInput={(event) => setDelay(event.currentTarget.value.replace(/\D/g, ''))} /></label>
          <label class="field short"><span>Expires after, s</span><input class="inp mono" inputMode="numeric" value={ttl} onInput={(event) => setTtl(event.currentTarget.value.replace(/[^\d-]/g, ''))} /></label>
          <label class="checkfield"><input type="checkbox" checked={asBase64} onChange={() => setAsBase64(!asBase64)} />as Base64, as older clients read it</label></div>
        {failure && <ErrorNote error={failure} />}
        <footer class="row"><span class="grow" /><button type="button" class="btn" onClick={props.onClose}>Cancel</button><button type="submit" class="btn pri" disabled={!text}>Put</button></footer>
      </form>
    </Dialog>
  );
}
