// The blobs of a container by prefix: folders, upload with progress, download, properties, delete with undo.

import { useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { bytes } from '../format';
import { go, here, later, link, loadResources, say, server, setQuery } from '../store';
import { Busy, Copy, DropDialog, Empty, ErrorNote, Icon, Meter, useLoad } from '../ui';
import { Shell } from '../shell';

interface BlobItem { name: string; size: number; type: string; kind: string; modified: string; etag: string; tier: string }
interface Listing { folders: string[]; blobs: BlobItem[]; next: string }

const PAGE = 500;
const BLOCK_BYTES = 4 * 1024 * 1024;
const blobPath = (container: string, name: string) => `${api.encode(container)}/${name.split('/').map(api.encode).join('/')}`;

async function list(account: string, container: string, prefix: string, marker: string, signal: AbortSignal): Promise<Listing> {
  const query = new URLSearchParams({ restype: 'container', comp: 'list', delimiter: '/', prefix, maxresults: String(PAGE), ...(marker ? { marker } : {}) });
  const found = await api.xml(await api.storage('blob', account, 'GET', `${api.encode(container)}?${query}`, { signal }));
  const text = (element: Element, tag: string) => element.querySelector(tag)?.textContent ?? '';
  return {
    folders: [...found.querySelectorAll('Blobs > BlobPrefix > Name')].map((name) => name.textContent ?? ''),
    blobs: [...found.querySelectorAll('Blobs > Blob')].map((blob) => ({
      name: text(blob, 'Name'), size: Number(text(blob, 'Content-Length')), type: text(blob, 'Content-Type'), kind: text(blob, 'BlobType'),
      modified: text(blob, 'Last-Modified'), etag: text(blob, 'Etag'), tier: text(blob, 'AccessTier'),
    })),
    next: found.querySelector('NextMarker')?.textContent ?? '',
  };
}

export function ContainerPage({ account, container }: { account: string; container: string }) {
  const [prefix, setPrefix] = useState(here.value.query.get('prefix') ?? '');
  const [marker, setMarker] = useState('');
  const [markers, setMarkers] = useState<string[]>([]);
  const [chosen, setChosen] = useState<BlobItem | null>(null);
  const [gone, setGone] = useState<Set<string>>(new Set());
  const [dialog, setDialog] = useState('');
  const [uploads, setUploads] = useState<{ name: string; share: number; failure: string }[]>([]);
  const [over, setOver] = useState(false);
  const file = useRef<HTMLInputElement>(null);
  const listing = useLoad((signal) => list(account, container, prefix, marker, signal), [account, container, prefix, marker]);
  const open = (next: string) => { setPrefix(next); setMarker(''); setMarkers([]); setChosen(null); setQuery({ prefix: next }); };
  const upload = async (files: File[]) => {
    for (const one of files) {
      const report = (part: { share?: number; failure?: string }) => setUploads((old) => old.map((entry) => (entry.name === one.name ? { ...entry, ...part } : entry)));
      setUploads((old) => [...old.filter((entry) => entry.name !== one.name), { name: one.name, share: 0, failure: '' }]);
      try {
        await uploadFile(account, container, prefix + one.name, one, (share) => report({ share }));
        report({ share: 1 });
      } catch (error) { report({ failure: (error as Error).message }); }
    }
    listing.again();
    setTimeout(() => setUploads((old) => old.filter((entry) => entry.failure)), 4000);
  };
  const remove = (blob: BlobItem) => {
    setGone(new Set([...gone, blob.name]));
    setChosen(null);
    later(`Deleted ${blob.name}`, async () => { await api.storage('blob', account, 'DELETE', blobPath(container, blob.name), { headers: { 'x-ms-delete-snapshots': 'include', 'if-match': blob.etag } }); listing.again(); },
      () => setGone((old) => new Set([...old].filter((name) => name !== blob.name))));
  };
  const drop = async () => { await api.storage('blob', account, 'DELETE', `${api.encode(container)}?restype=container`); setDialog(''); say(`Dropped ${container}`); await loadResources(); go(link('overview')); };
  const found = listing.value;
  const blobs = (found?.blobs ?? []).filter((blob) => !gone.has(blob.name));
  const steps = prefix.split('/').filter(Boolean);
  const href = (blob: BlobItem) => `/data/blob/${api.encode(account)}/${blobPath(container, blob.name)}`;
  /** Where clients find it: at the blob endpoint, not here. */
  const endpoint = server.value?.accounts.find((one) => one.account === account)?.endpoints.find((one) => one.service === 'Blob')?.url;
  const address = (blob: BlobItem) => `${endpoint}/${blobPath(container, blob.name)}`;
  const nothing = found && !blobs.length && !found.folders.length;
  const actions = (
    <>
      <button type="button" class="btn" onClick={() => file.current?.click()}><Icon name="up" small />Upload</button>
      <input ref={file} class="sr" type="file" multiple tabIndex={-1} aria-label="Files to upload" onChange={(event) => { void upload([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ''; }} />
      <button type="button" class="btn ghost icon" aria-label="Drop container" title="Drop container" onClick={() => setDialog('drop')}><Icon name="trash" small /></button>
    </>
  );
  return (
    <Shell title={<code>{container}</code>} label={container} actions={actions}>
      <div class="bl-bar">
        <nav class="crumbs mono" aria-label="Prefix"><button type="button" class="linkish" onClick={() => open('')}>{container}</button>{steps.map((step, index) => <span key={index}><span class="crumb">/</span><button type="button" class="linkish" onClick={() => open(`${steps.slice(0, index + 1).join('/')}/`)}><bdi>{step}</bdi></button></span>)}</nav>
        <span class="grow" /><label class="sr" for="bp">Prefix</label><input id="bp" data-slash class="inp mono sm prefixbox" placeholder="Prefix" value={prefix} onInput={(event) => open(event.currentTarget.value)} />
      </div>
      {uploads.length > 0 && <div class="panel uploads" role="status">{uploads.map((entry) => <div class="row" key={entry.name}><span class="mono ellip grow"><bdi>{entry.name}</bdi></span>{entry.failure ? <span class="bad small">{entry.failure}</span> : <Meter share={entry.share} width={160} class={entry.share >= 1 ? 'ok' : ''} />}</div>)}</div>}
      {listing.error && <ErrorNote error={listing.error}><button type="button" class="btn sm" onClick={listing.again}>Try again</button></ErrorNote>}
      <div class={`q ${chosen ? '' : 'one'}`}>
        <section class={`panel blobs ${over ? 'over' : ''}`} aria-label="Blobs" onDragOver={(event) => { event.preventDefault(); setOver(true); }} onDragLeave={() => setOver(false)} onDrop={(event) => { event.preventDefault(); setOver(false); void upload([...(event.dataTransfer?.files ?? [])]); }}>
          <Busy on={listing.busy} />
          {nothing ? <Empty icon="box" title={prefix ? 'Nothing under this prefix' : 'No blobs yet'} actions={<button type="button" class="btn pri" onClick={() => file.current?.click()}>Upload files</button>}>Drop files here, or choose them.</Empty> : (
            <div class="scroll-x" tabIndex={0} role="region" aria-label="Blobs and folders"><table><thead><tr><th>Name</th><th class="num">Size</th><th class="c-s">Type</th><th class="c-s">Kind</th><th class="c-s">Modified</th><th><span class="sr">Download</span></th></tr></thead>
              <tbody>
                {!found && [1, 2, 3].map((row) => <tr key={row} class="placeholder"><td colSpan={6}><span class="meter" /></td></tr>)}
                {found?.folders.map((folder) => <tr key={folder}><td class="mono nm"><button type="button" class="linkish iconed" onClick={() => open(folder)}><Icon name="folder" small /><bdi class="ellip">{folder.slice(prefix.length)}</bdi></button></td><td class="num faint">–</td><td class="c-s faint" colSpan={3}>folder</td><td /></tr>)}
                {blobs.map((blob) => (
                  <tr key={blob.name} aria-selected={chosen?.name === blob.name}><td class="mono nm"><button type="button" class="linkish iconed" onClick={() => setChosen(blob)} title={blob.name}><Icon name="file" small /><bdi class="ellip">{blob.name.slice(prefix.length)}</bdi></button></td>
                    <td class="num">{bytes(blob.size)}</td><td class="c-s dim ellip ctype">{blob.type}</td><td class="c-s dim">{blob.kind.replace('Blob', '')}</td><td class="c-s dim">{blob.modified.replace(/^\w+, | GMT$/g, '')}</td>
                    <td class="num"><a class="btn ghost sm icon" href={href(blob)} download={blob.name.split('/').pop()} aria-label={`Download ${blob.name}`} title="Download"><Icon name="down" small /></a></td></tr>
                ))}
              </tbody></table></div>
          )}
          {(found?.next || markers.length > 0) && <div class="pager padded"><span class="grow" /><button type="button" class="btn sm" disabled={!markers.length} onClick={() => { setMarker(markers[markers.length - 1] ?? ''); setMarkers(markers.slice(0, -1)); }}>Back</button><button type="button" class="btn sm" disabled={!found?.next} onClick={() => { setMarkers([...markers, marker]); setMarker(found?.next ?? ''); }}>Next page</button></div>}
        </section>
        {chosen && (
          <aside class="panel peek" aria-label="Blob"><header><h2 class="mono ellip" title={chosen.name}><bdi>{chosen.name.split('/').pop()}</bdi></h2><span class="more row">{endpoint && <Copy text={address(chosen)} label="Copy address" />}<button type="button" class="btn ghost sm icon" aria-label="Close" onClick={() => setChosen(null)}><Icon name="x" small /></button></span></header>
            <div class="body"><dl class="kv"><dt>Name</dt><dd class="mono wrapany"><bdi>{chosen.name}</bdi></dd><dt>Size</dt><dd>{bytes(chosen.size)}</dd><dt>Type</dt><dd class="wrapany">{chosen.type || '–'}</dd><dt>Kind</dt><dd>{chosen.kind}</dd>{chosen.tier && <><dt>Tier</dt><dd>{chosen.tier}</dd></>}<dt>Modified</dt><dd>{chosen.modified}</dd><dt>ETag</dt><dd class="mono wrapany">{chosen.etag}</dd></dl>
              <div class="row wrap peekacts"><a class="btn" href={href(chosen)} download={chosen.name.split('/').pop()}><Icon name="down" small />Download</a><button type="button" class="btn ghost danger" onClick={() => remove(chosen)}>Delete</button></div></div></aside>
        )}
      </div>
      {dialog === 'drop' && <DropDialog what="container" name={container} note="All of its blobs go with it." onDrop={drop} onClose={() => setDialog('')} />}
    </Shell>
  );
}

/** A small file in one request, a larger one in blocks. */
async function uploadFile(account: string, container: string, name: string, file: File, report: (share: number) => void) {
  const path = blobPath(container, name);
  const type = file.type || 'application/octet-stream';
  if (file.size <= BLOCK_BYTES) {
    await api.storage('blob', account, 'PUT', path, { body: file, headers: { 'x-ms-blob-type': 'BlockBlob', 'x-ms-blob-content-type': type, 'content-type': 'application/octet-stream' } });
    return;
  }
  const ids: string[] = [];
  for (let at = 0; at < file.size; at += BLOCK_BYTES) {
    const id = btoa(String(ids.length).padStart(8, '0'));
    await api.storage('blob', account, 'PUT', `${path}?comp=block&blockid=${api.encode(id)}`, { body: file.slice(at, at + BLOCK_BYTES), headers: { 'content-type': 'application/octet-stream' } });
    ids.push(id);
    report(Math.min(0.99, (at + BLOCK_BYTES) / file.size));
  }
  const body = `<?xml version="1.0" encoding="utf-8"?><BlockList>${ids.map((id) => `<Latest>${id}</Latest>`).join('')}</BlockList>`;
  await api.storage('blob', account, 'PUT', `${path}?comp=blocklist`, { body, headers: { 'x-ms-blob-content-type': type, 'content-type': 'application/xml' } });
}
