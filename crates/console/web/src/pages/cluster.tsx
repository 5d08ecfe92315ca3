// The servers that share the store, and what the store has counted.

import { useEffect } from 'preact/hooks';
import { whole } from '../format';
import { health, loadServer, server } from '../store';
import { Empty, ErrorNote } from '../ui';
import { Shell } from '../shell';

export function ClusterPage() {
  useEffect(() => { const timer = setInterval(() => void loadServer().catch(() => {}), 5000); return () => clearInterval(timer); }, []);
  const members = server.value?.members ?? [];
  const state = health.value;
  if (state && state.engine !== 'cql') {
    return <Shell title="Cluster" label="Cluster"><Empty icon="cluster" title="This server has its store to itself">Rows are in its data folder. Servers share a store with <code>--engine cql</code>.</Empty></Shell>;
  }
  return (
    <Shell title="Cluster" label="Cluster">
      {state?.failure && <ErrorNote error={state.failure} />}
      <div class="ov even">
        <section class="panel" aria-label="Servers"><header><h2>Servers</h2><span class="pill">{members.length}</span><span class="more dim">{state?.location}</span></header>
          <div class="scroll-x"><table><thead><tr><th>Server</th><th>Address</th><th class="num">Share of partitions</th></tr></thead><tbody>
            {members.map((member) => <tr key={member.name}><td class="mono">{member.name} {member.isThis && <span class="pill acc">this one</span>}</td><td class="mono dim">{member.host}</td><td class="num">{Math.round(100 / Math.max(1, members.length))} %</td></tr>)}
          </tbody></table></div>
          <div class="body small dim tailnote">Each partition belongs to one server by its hash; every server answers for every partition.</div></section>
        <section class="panel" aria-label="Store"><header><h2>Store</h2></header><div class="scroll-x"><table><thead><tr><th>Figure</th><th class="num">Now</th></tr></thead><tbody>
          {state?.figures.map((figure) => <tr key={figure.name}><td title={figure.name}>{figure.help}</td><td class="num">{whole(figure.value)}</td></tr>)}
        </tbody></table></div></section>
      </div>
    </Shell>
  );
}
