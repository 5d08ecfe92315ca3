//! The engine: the contract, on the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::{Consistency, SerialConsistency};
use tavola_engine::{
    Cause, Decide, Engine, EngineError, LoadedRow, ScanRange, SpaceId, StoredRow, TickClock, Transacted,
    Visit,
};
use tavola_model::{Clock, DateTime};

use crate::content::CqlContents;
use crate::janitor::{self, Candidates, Cursors};
use crate::lane::Lanes;
use crate::metrics::{ClusterCounters, CqlMetrics};
use crate::safety::{self, NodeReport};
use crate::schema;
use crate::settings::{CONNECT_TIME_MAX, CqlSettings, REQUEST_TIME_MAX, SILENCE_TIME_MAX};
use crate::spaces::Spaces;
use crate::store::{ClusterStore, Partition, StatementError, stored_key};
use crate::tls;

/// How long closing waits for writers that are under way.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(15);

/// Why the engine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The cluster cannot be reached or does not answer.
    #[error("cannot use the cluster")]
    Failed {
        /// What happened.
        #[source]
        cause: Cause,
    },
    /// The cluster is not fit for acknowledged writes to survive, or not set up.
    #[error("refusing to use the cluster: {0}")]
    Refused(String),
}

impl ConnectError {
    pub(crate) fn failed(cause: impl Into<Cause>) -> Self {
        Self::Failed { cause: cause.into() }
    }
}

/// The distributed engine. Dropping it ends its background work; writers under way finish.
pub struct CqlEngine {
    pub(crate) core: Arc<Core>,
    pub(crate) contents: Arc<CqlContents>,
    content_bucket: Option<String>,
    nodes: Vec<NodeReport>,
}

/// A node of the cluster, as this server sees it now.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// Where it is.
    pub address: String,
    /// Its data centre, and its rack there.
    pub datacenter: String,
    /// See `datacenter`.
    pub rack: String,
    /// Whether a connection to it is open.
    pub is_connected: bool,
}

/// What all parts of the engine share.
pub(crate) struct Core {
    pub store: ClusterStore,
    pub clock: Arc<dyn Clock>,
    /// The versions of this server go up from partition to partition; within one, its head sees to that.
    pub ticks: TickClock,
    pub lanes: Lanes,
    pub spaces: Spaces,
    pub candidates: Candidates,
    pub cursors: Cursors,
    pub counters: ClusterCounters,
    /// Bytes that one transaction may write, as the nodes told when the engine was connected.
    pub transaction_bytes_max: usize,
}

impl CqlEngine {
    /// Connects to a cluster whose schema was made by [`crate::init`], and checks that it is safe to use.
    pub async fn connect(settings: &CqlSettings, clock: Arc<dyn Clock>) -> Result<Arc<Self>, ConnectError> {
        schema::check_name(&settings.keyspace)?;
        let session = connect(settings).await?;
        session.use_keyspace(&settings.keyspace, false).await.map_err(|error| {
            ConnectError::Refused(format!(
                "there is no keyspace {}: run `tavola cluster init` first ({error})",
                settings.keyspace
            ))
        })?;
        let chosen = schema::check(&session).await?;
        let nodes = safety::check(&session, &settings.keyspace).await?;
        let core = Arc::new(Core {
            store: ClusterStore::prepare(session).await?,
            ticks: TickClock::starting_above(DateTime::MIN, clock.clone()),
            clock,
            lanes: Lanes::default(),
            spaces: Spaces::new(chosen.lease),
            candidates: Candidates::default(),
            cursors: Cursors::default(),
            counters: ClusterCounters::default(),
            transaction_bytes_max: safety::transaction_bytes_max(&nodes),
        });
        tokio::spawn(janitor::run(Arc::downgrade(&core)));
        let contents = Arc::new(CqlContents::new(&core));
        Ok(Arc::new(Self { core, contents, content_bucket: chosen.content_bucket, nodes }))
    }

    /// The address of the bucket that keeps the contents of blobs, if they are not rows of the keyspace.
    pub fn content_bucket(&self) -> Option<&str> {
        self.content_bucket.as_deref()
    }

    /// The nodes as they were when the engine was connected.
    pub fn nodes(&self) -> &[NodeReport] {
        &self.nodes
    }

    /// The nodes that the cluster has now, and whether this server has connections to them.
    pub fn node_states(&self) -> Vec<NodeState> {
        let state = self.core.store.session.get_cluster_state();
        let mut nodes: Vec<NodeState> = state
            .get_nodes_info()
            .iter()
            .map(|node| NodeState {
                address: node.address.to_string(),
                datacenter: node.datacenter.clone().unwrap_or_default(),
                rack: node.rack.clone().unwrap_or_default(),
                is_connected: node.is_connected(),
            })
            .collect();
        nodes.sort_by(|left, right| left.address.cmp(&right.address));
        nodes
    }

    /// Bytes that one transaction may write.
    pub fn transaction_bytes_max(&self) -> usize {
        self.core.transaction_bytes_max
    }

    /// For how long a look at the catalog may be relied on: whoever deletes a table waits that long.
    pub fn lease_time(&self) -> Duration {
        self.core.spaces.lease_time()
    }

    /// What was counted so far.
    pub fn metrics(&self) -> CqlMetrics {
        self.core.counters.read()
    }

    /// Removes everything that nobody needs any more, now. It happens little by little anyway.
    pub async fn tidy(&self) -> Result<(), EngineError> {
        self.core.tidy().await
    }

    /// Whether the cluster answers a read now.
    pub async fn probe(&self) -> Result<(), EngineError> {
        let partition = Partition { space: [0; 16], bytes: Bytes::from_static(b"probe") };
        self.core.store.read_row(&partition, &[]).await.map(|_| ()).map_err(read_failed)
    }

    /// Returns when no writer is under way any more, or after a while.
    pub async fn close(&self) {
        let started = Instant::now();
        while !self.core.is_idle() && started.elapsed() < CLOSE_TIME_MAX {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[async_trait]
impl Engine for CqlEngine {
    async fn create_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.core.create_space(space).await
    }

    async fn drop_space(&self, space: SpaceId) -> Result<(), EngineError> {
        self.core.drop_space(space).await
    }

    async fn spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        self.core.list_spaces().await
    }

    async fn transact(
        &self,
        space: SpaceId,
        partition: &[u8],
        rows: &[&[u8]],
        decide: &mut Decide<'_>,
    ) -> Result<Transacted, EngineError> {
        let mut lease = self.core.spaces.lease(&self.core, space).await?;
        let partition = Partition { space: lease.stored, bytes: Bytes::copy_from_slice(partition) };
        let keys: Arc<[Bytes]> = rows.iter().map(|row| stored_key(row)).collect();
        let transacted = self.core.transact(partition, keys, decide).await?;
        let confirmed = self.core.spaces.confirm(&self.core, &mut lease).await;
        match transacted {
            Transacted::Applied(_) => confirmed.map_err(|error| self.core.unconfirmed(error))?,
            Transacted::Refused => confirmed?,
        }
        Ok(transacted)
    }

    async fn load(
        &self,
        space: SpaceId,
        partition: &[u8],
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        let mut lease = self.core.spaces.lease(&self.core, space).await?;
        let partition = Partition { space: lease.stored, bytes: Bytes::copy_from_slice(partition) };
        self.core.load(partition, tick, rows).await?;
        let confirmed = self.core.spaces.confirm(&self.core, &mut lease).await;
        confirmed.map_err(|error| self.core.unconfirmed(error))
    }

    async fn get(
        &self,
        space: SpaceId,
        partition: &[u8],
        row: &[u8],
    ) -> Result<Option<StoredRow>, EngineError> {
        let mut lease = self.core.spaces.lease(&self.core, space).await?;
        let partition = Partition { space: lease.stored, bytes: Bytes::copy_from_slice(partition) };
        let found = self.core.get(&partition, &stored_key(row)).await?;
        self.core.spaces.confirm(&self.core, &mut lease).await?;
        Ok(found)
    }

    async fn scan(
        &self,
        space: SpaceId,
        range: &ScanRange,
        visit: &mut Visit<'_>,
    ) -> Result<(), EngineError> {
        let mut lease = self.core.spaces.lease(&self.core, space).await?;
        self.core.scan(&mut lease, range, visit).await?;
        self.core.spaces.confirm(&self.core, &mut lease).await
    }
}

impl Core {
    /// The answer for a write that was kept in a space of which it is not certain that it still exists.
    fn unconfirmed(&self, error: EngineError) -> EngineError {
        let error = kept_but(error);
        if matches!(error, EngineError::OutcomeUnknown { .. }) {
            self.counters.unknown_outcomes.add(1);
        }
        error
    }
}

/// What a failure after a write was kept means. In a space that is gone nobody ever sees the write; any other failure
/// would say that nothing was kept.
fn kept_but(error: EngineError) -> EngineError {
    match error {
        EngineError::SpaceMissing { .. } | EngineError::OutcomeUnknown { .. } => error,
        EngineError::Conflict { .. }
        | EngineError::Unavailable { .. }
        | EngineError::Full { .. }
        | EngineError::TooLarge { .. }
        | EngineError::Damaged { .. }
        | EngineError::Failed { .. } => EngineError::OutcomeUnknown { cause: error.into() },
    }
}

/// A session that leaves it to us to try again.
pub(crate) async fn connect(settings: &CqlSettings) -> Result<Session, ConnectError> {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::Quorum)
        .serial_consistency(Some(SerialConsistency::Serial))
        .request_timeout(Some(REQUEST_TIME_MAX))
        .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
        .build();
    let mut builder = SessionBuilder::new()
        .known_nodes(&settings.nodes)
        .default_execution_profile_handle(profile.into_handle())
        .keepalive_interval(SILENCE_TIME_MAX)
        .keepalive_timeout(SILENCE_TIME_MAX)
        .fetch_full_schema_metadata(false);
    if let Some(login) = &settings.login {
        builder = builder.user(&login.user, &login.password);
    }
    if let Some(settings) = &settings.tls {
        builder = builder.tls_context(Some(tls::config(settings)?));
    }
    // The driver waits for a node that accepts a connection and then says nothing in its handshake for as long as that
    // lasts.
    match tokio::time::timeout(CONNECT_TIME_MAX, builder.build()).await {
        Ok(built) => built.map_err(ConnectError::failed),
        Err(_) => Err(ConnectError::failed("a node accepts connections but does not answer")),
    }
}

/// The answer for a read that failed, or a write that can be left for later.
pub(crate) fn read_failed(trouble: StatementError) -> EngineError {
    match trouble {
        StatementError::Impossible(cause) => EngineError::Failed { cause },
        StatementError::NotDone(cause) | StatementError::Unclear(cause) => {
            tracing::warn!(%cause, "the cluster does not answer");
            EngineError::Unavailable { reason: "the cluster does not answer" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_was_kept_never_fails_as_if_it_was_not() {
        let space = SpaceId([7; 16]);
        let silent = kept_but(EngineError::Unavailable { reason: "the cluster does not answer" });
        assert!(matches!(silent, EngineError::OutcomeUnknown { .. }));
        let failed = kept_but(EngineError::Failed { cause: "an answer that cannot be read".into() });
        assert!(matches!(failed, EngineError::OutcomeUnknown { .. }));
        let damaged = kept_but(EngineError::Damaged { space, what: "the list of spaces" });
        assert!(matches!(damaged, EngineError::OutcomeUnknown { .. }));
        let missing = kept_but(EngineError::SpaceMissing { space });
        assert!(matches!(missing, EngineError::SpaceMissing { .. }));
    }
}
