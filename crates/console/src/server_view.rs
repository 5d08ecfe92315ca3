//! What the console shows of the server as a whole. The server gives it; the console knows no engine.

use async_trait::async_trait;
use tavola_frontend::{OwnedCount, OwnedPartition, PartitionHash};
use tavola_model::{AccountName, StorageService};

/// The server, seen by the console.
#[async_trait]
pub trait ServerView: Send + Sync + 'static {
    /// Whether the store answers a read now; else why not, for a person.
    async fn probe(&self) -> Result<(), String>;

    /// What the store says of itself now. It may read files: call it where that keeps nobody waiting.
    fn health(&self) -> Health;

    /// The servers that share the store; empty where this one is alone.
    fn members(&self) -> Vec<MemberView>;

    /// The nodes of a distributed store, as this server sees them; none where the store is its own.
    fn nodes(&self) -> Vec<NodeView> {
        Vec::new()
    }

    /// The server to which writes of a partition are forwarded; `None` where servers do not forward to each other.
    fn owner(&self, account: &AccountName, partition: OwnedPartition<'_>) -> Option<OwnerView> {
        let _ = (account, partition);
        None
    }

    /// How many of these partitions of one service each server owns; empty where servers do not forward to each other.
    fn count_owned(&self, service: StorageService, hashes: &[PartitionHash]) -> Vec<OwnedCount> {
        let _ = (service, hashes);
        Vec::new()
    }
}

/// How the store is.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Figures with their meaning.
    pub figures: Vec<HealthFigure>,
    /// The disk that holds the data folder.
    pub disk: Option<DiskSpace>,
    /// Where rows are, for a person.
    pub location: String,
    /// `local` or `cql`.
    pub engine: &'static str,
}

/// One figure of a store.
#[derive(Clone, Debug)]
pub struct HealthFigure {
    /// Its name as a metric.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its value.
    pub value: u64,
    /// Whether it only grows.
    pub is_counter: bool,
}

/// Space on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of it.
    pub total_bytes: u64,
    /// What is left.
    pub free_bytes: u64,
    /// What the data folder takes, when it was last measured.
    pub data_bytes: u64,
    /// How it has grown, once that was watched for long enough to tell.
    pub growth: Option<Growth>,
}

/// By how much the data folder has grown in which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// More bytes than before.
    pub bytes: u64,
    /// In so many seconds.
    pub seconds: u64,
}

/// A server on the store.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// Where it listens.
    pub host: String,
    /// Whether it is this one.
    pub is_this: bool,
}

/// The server that owns a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerView {
    /// Its name, as in [`MemberView`].
    pub name: String,
    /// Whether it is this one.
    pub is_this: bool,
    /// Whether this server forwards nothing to it for now, because it did not answer.
    pub is_suspended: bool,
}

/// A node of the store.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// Where it is.
    pub address: String,
    /// Its data centre and rack, for a person.
    pub location: String,
    /// Whether this server has a connection to it.
    pub is_up: bool,
    /// Settings that it told when the server started, such as `commitlog_sync batch`.
    pub settings: Vec<String>,
}
