// The servers that share the store, and what the store has counted.

import { useEffect } from 'preact/hooks';
import { whole } from '../format';
import { health, loadServer, server } from '../store';
import { Empty, ErrorNote } from '../ui';
import { Shell } from '../shell';

export function ClusterPage() {
  useEffect(() => { const timer = setInterval(() => void loadServer().catch(() => {}), 5000); return () => clearInterval(timer); }, []);
  const members = server.value?.members ?? [];
  const nodes = server.value?.nodes ?? [];
  const down = nodes.filter((node) => !node.isUp).length;
  const state = health.value;
  if (state && state.engine !== 'cql') {
    return <Shell title="Cluster" label="Cluster"><Empty icon="cluster" title="This server has its store to itself">Rows are in its data folder. Servers share a store with <code>--engine cql</code>.</Empty></Shell>;
  }
  return (
    <Shell title="Cluster" label="Cluster">
      {state?.failure && <ErrorNote error={state.failure} />}
      <div class="ov even">
        <div class="col">
        <section class="panel" aria-label="Nodes"><header><span class={`dot ${down ? (down * 2 > nodes.length ? 'bad' : 'warn') : ''}`} /><h2>Nodes of the store</h2><span class="pill">{nodes.length}</span><span class="more dim">{down ? `${down} not connected` : 'all connected'}</span></header>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Nodes by address"><table><thead><tr><th>Node</th><th>Data centre / rack</th><th>State</th><th class="c-s">Settings</th></tr></thead><tbody>
            {nodes.map((node) => <tr key={node.address}><td class="mono">{node.address}</td><td class="dim">{node.location}</td><td>{node.isUp ? <span class="chip point">connected</span> : <span class="chip tscan">not connected</span>}</td><td class="small dim c-s nodeset" title={node.settings.join('\n')}>{node.settings.slice(0, 2).map((setting) => <div key={setting}>{setting}</div>)}{!node.settings.length && '–'}</td></tr>)}
          </tbody></table></div>
          <div class="body small dim tailnote">As this server sees them now; settings as they were when it started.</div></section>
        <section class="panel" aria-label="Servers"><header><h2>Servers</h2><span class="pill">{members.length}</span><span class="more dim">{state?.location}</span></header>
          <div class="scroll-x" tabIndex={0} role="region" aria-label="Servers by name"><table><thead><tr><th>Server</th><th>Address</th></tr></thead><tbody>
            {members.map((member) => <tr key={member.name}><td class="mono">{member.name} {member.isThis && <span class="pill acc">this one</span>}</td><td class="mono dim">{member.host}</td></tr>)}
          </tbody></table></div>
          <div class="body small dim tailnote">Each partition belongs to one server by its hash; every server answers for every partition.</div></section>
        </div>
        <section class="panel" aria-label="Store"><header><h2>Store</h2></header><div class="scroll-x" tabIndex={0} role="region" aria-label="Figures of the store"><table><thead><tr><th>Figure</th><th class="num">Now</th></tr></thead><tbody>
          {state?.figures.map((figure) => <tr key={figure.name}><td class="figname" title={figure.name}>{figure.help}</td><td class="num">{whole(figure.value)}</td></tr>)}
        </tbody></table></div></section>
      </div>
    </Shell>
  );
}
