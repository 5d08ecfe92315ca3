//! How many partitions there are, about.
//!
//! Counting the directory would read all of it. Every node of the cluster keeps an estimate of how many partitions of
//! `row` are in its own share of the ring, made again every five minutes from what is on its disk; the sum over the nodes
//! is the size of all directories, give or take what is still in memory, the heads of partitions that were emptied in the
//! last week, and the list of spaces.

use std::sync::Arc;

use scylla::cluster::Node;
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::statement::{Consistency, Statement};
use tavola_engine::{Cause, EngineError};

use crate::engine::Core;

impl Core {
    /// Asks every node and keeps the sum. If one does not answer, the sum of before stays.
    pub async fn estimate_directory(&self) -> Result<(), EngineError> {
        let Some(keyspace) = self.store.session.get_keyspace() else { return Ok(()) };
        let mut entries = 0;
        for node in self.store.session.get_cluster_state().get_nodes_info() {
            let estimated = self.estimate_on(node, &keyspace).await;
            entries += estimated.map_err(|cause| EngineError::Failed { cause })?;
        }
        self.counters.directory_entries.set(entries);
        Ok(())
    }

    async fn estimate_on(&self, node: &Arc<Node>, keyspace: &str) -> Result<u64, Cause> {
        let mut select = Statement::new(
            "SELECT partitions_count FROM system.size_estimates WHERE keyspace_name = ? AND table_name = 'row'",
        );
        select.set_consistency(Consistency::One);
        let node = NodeIdentifier::Node(node.clone());
        select.set_load_balancing_policy(Some(SingleTargetLoadBalancingPolicy::new(node, None)));
        let found = self.store.session.query_unpaged(select, (keyspace,)).await?.into_rows_result()?;
        let mut sum = 0;
        for row in found.rows::<(Option<i64>,)>()? {
            sum += row?.0.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        }
        Ok(sum)
    }
}
