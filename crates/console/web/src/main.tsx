// Starts the console: the session first, then the page that the address names.

import './style.css';
import './extra.css';
import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import * as api from './api';
import { account, chooseAccount, here, session, start } from './store';
import { loadFindings } from './advice';
import { ErrorNote, Toasts } from './ui';
import { Overview } from './pages/overview';
import { TablePage } from './pages/table';
import { QueuePage } from './pages/queue';
import { ContainerPage } from './pages/container';
import { HeatPage } from './pages/heat';
import { AdvisorPage } from './pages/advisor';
import { LivePage } from './pages/live';
import { AccessPage } from './pages/access';
import { ClusterPage } from './pages/cluster';
import { Shell } from './shell';
import { Empty } from './ui';

function App() {
  const [failure, setFailure] = useState('');
  useEffect(() => {
    api.fetchSession().then(start).then(loadFindings, (error) => setFailure((error as Error).message));
  }, []);
  const info = session.value;
  if (failure) return <div class="signin"><ErrorNote error={`The server does not answer: ${failure}`} /></div>;
  if (!info) return <div class="signin faint">Loading</div>;
  if (!info.signedIn) return <SignIn />;
  return <Page />;
}

function Page() {
  const { page, parts } = here.value;
  const [of = '', name = ''] = parts;
  useEffect(() => {
    if (of && of !== account.value && session.value?.accounts.includes(of)) chooseAccount(of);
  }, [of]);
  const key = `${page}/${parts.join('/')}`;
  switch (page) {
    case 'overview': return <Overview />;
    case 'table': return <TablePage key={key} account={of} table={name} />;
    case 'queue': return <QueuePage key={key} account={of} queue={name} />;
    case 'container': return <ContainerPage key={key} account={of} container={name} />;
    case 'heatmap': return <HeatPage key={key} table={name} />;
    case 'advisor': return <AdvisorPage />;
    case 'live': return <LivePage />;
    case 'access': return <AccessPage />;
    case 'cluster': return <ClusterPage />;
    default:
      return <Shell title="Not found" label="Not found"><Empty icon="none" title="There is no such page" actions={<a class="btn" href="#/overview">Overview</a>} /></Shell>;
  }
}

export function SignIn() {
  const [by, setBy] = useState<'key' | 'token'>('key');
  const [name, setName] = useState('');
  const [secret, setSecret] = useState('');
  const [failure, setFailure] = useState('');
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await start(await api.signIn(by === 'key' ? { account: name, key: secret } : { token: secret }));
    } catch (error) {
      setFailure((error as Error).message);
    }
  };
  return (
    <main class="signin">
      <form class="panel" onSubmit={submit}>
        <div class="brand"><svg viewBox="0 0 18 18" aria-hidden="true" fill="currentColor"><path d="M1 2h16v3.4H1zM1 7h4.4v9H1zM7 7h10v3.7H7zM7 12.3h10V16H7z" /></svg><h1>Tavola</h1></div>
        <div class="seg full" role="group" aria-label="Sign in with">
          <button type="button" aria-pressed={by === 'key'} onClick={() => setBy('key')}>Account key</button>
          <button type="button" aria-pressed={by === 'token'} onClick={() => setBy('token')}>Console token</button>
        </div>
        {by === 'key' && <label class="field"><span>Account</span><input class="inp mono" name="account" autocomplete="username" value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>}
        <label class="field"><span>{by === 'key' ? 'Key' : 'Token'}</span><input class="inp mono" type="password" name="secret" autocomplete="current-password" value={secret} onInput={(event) => setSecret(event.currentTarget.value)} /></label>
        {failure && <ErrorNote error={failure} />}
        <button type="submit" class="btn pri" disabled={!secret || (by === 'key' && !name)}>Sign in</button>
        <p class="hint dim">{by === 'key' ? 'One of the two keys of the account, as in a connection string.' : 'Made by tavola console-token; it opens every account.'}</p>
      </form>
      <Toasts />
    </main>
  );
}

const root = document.getElementById('root');
if (root) render(<App />, root);
