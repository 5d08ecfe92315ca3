//! What an operator can choose, and the bounds that follow.

use std::path::PathBuf;
use std::time::Duration;

/// How to reach the cluster.
#[derive(Clone, Debug)]
pub struct CqlSettings {
    /// Some nodes of the cluster, `host:port`; the others are found through them.
    pub nodes: Vec<String>,
    /// The keyspace that holds everything.
    pub keyspace: String,
    /// Who to be for the cluster, where it asks.
    pub login: Option<Login>,
    /// How connections are encrypted; without it they are not.
    pub tls: Option<TlsSettings>,
}

impl CqlSettings {
    /// The defaults.
    pub fn new(nodes: Vec<String>) -> Self {
        Self { nodes, keyspace: "tavola".to_owned(), login: None, tls: None }
    }
}

/// A user of the cluster. `Debug` does not show the password.
#[derive(Clone)]
pub struct Login {
    /// Name.
    pub user: String,
    /// Password.
    pub password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// Files for encrypted connections, all in PEM form.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Certificates of the authority that the certificates of the nodes come from.
    pub authority: PathBuf,
    /// Who to be for nodes that ask for a certificate.
    pub identity: Option<ClientIdentity>,
}

/// A certificate to show to the nodes, and its private key.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    /// The certificate, with those between it and its authority.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// What is chosen once, when the schema is made, and holds for all servers.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Copies by data centre, as `NetworkTopologyStrategy` takes them.
    pub replication: Vec<(String, u32)>,
    /// For how long a server may take it that a space still exists without looking. Dropping one takes that long.
    pub lease: Duration,
    /// The address of the bucket that keeps the contents of blobs; without one they are rows of the keyspace.
    pub content_bucket: Option<String>,
}

/// How long one request to the cluster may take. Longer than the cluster's own time-outs, so that it is mostly the
/// cluster that says what has happened.
pub(crate) const REQUEST_TIME_MAX: Duration = Duration::from_secs(4);
/// How long a call of the contract goes on trying before it gives up.
pub(crate) const CALL_TIME_MAX: Duration = Duration::from_secs(12);
/// How long a connection may be silent before its node is taken for gone.
pub(crate) const SILENCE_TIME_MAX: Duration = Duration::from_secs(2);
/// How long it may take to connect to the cluster at the start: to all of its nodes, some of which may be silent.
pub(crate) const CONNECT_TIME_MAX: Duration = Duration::from_secs(30);
/// The first wait before something is tried again; it doubles.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(2);
/// The longest wait before something is tried again.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_millis(200);
/// Transactions that are decided and committed together at most.
pub(crate) const ROUND_TRANSACTIONS_MAX: usize = 128;
/// Rows that one round reads, unless a single transaction asks for more.
pub(crate) const ROUND_ROWS_MAX: usize = 512;
/// Rows that a round asks for at once while it is not known how large they are, unless a single transaction asks for
/// more: one of the Table service has a hundred.
pub(crate) const ROUND_READ_ROWS_MAX: usize = 128;
/// Bytes read in a round after which the rest of it waits for the next.
pub(crate) const ROUND_READ_BYTES_AIM: usize = 8 * 1024 * 1024;
/// Bytes written in a round after which the rest of it waits for the next.
pub(crate) const ROUND_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Bytes that a node takes in one write where it does not tell: what Cassandra has by itself. It answers more with a
/// time-out, so a transaction is judged before it is sent.
pub(crate) const NODE_BYTES_DEFAULT: usize = 16 * 1024 * 1024;
/// Bytes that a node must take in one write: a request brings up to four mebibytes.
pub(crate) const NODE_BYTES_MIN: usize = 8 * 1024 * 1024;
/// Transactions that may wait in one partition; more are refused.
pub(crate) const WAITING_TRANSACTIONS_MAX: usize = 4096;
/// For how long after it was met another server is taken to write to a partition still.
pub(crate) const RIVAL_TIME: Duration = Duration::from_secs(1);
/// How long a lane rests at most after a round, where another server writes too.
pub(crate) const REST_TIME_MAX: Duration = Duration::from_millis(60);
/// Partitions that are remembered for that.
pub(crate) const RIVALS_MAX: usize = 10_000;
/// Rows in the first page of a scan, when nothing is known of them: an entity has up to a mebibyte.
pub(crate) const PAGE_ROWS_FIRST: i32 = 16;
/// Rows in a page of a scan at most.
pub(crate) const PAGE_ROWS_MAX: i32 = 1000;
/// Bytes that a page of a scan aims at.
pub(crate) const PAGE_BYTES_AIM: usize = 1024 * 1024;
/// Bytes of a page of a scan should all its rows be as large as the largest one so far.
pub(crate) const PAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How many times larger a page of a scan may be than the one before it, and at least how many times smaller after a
/// failure.
pub(crate) const PAGE_STEP: i32 = 4;
/// Rows of one partition that a scan holds back until it knows that they are one snapshot.
pub(crate) const SNAPSHOT_ROWS_MAX: i32 = 4096;
/// Bytes of one partition that a scan holds back until it knows that they are one snapshot.
pub(crate) const SNAPSHOT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Rows that a scan asks for at once of partitions ahead.
pub(crate) const AHEAD_ROWS_MAX: i32 = 128;
/// Bytes that a scan reads ahead should all partitions be as large as the largest of those before.
pub(crate) const AHEAD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Shards of the directory of a space. Part of the stored form: it cannot change without a new schema version.
pub(crate) const DIRECTORY_SHARDS: i16 = 16;
/// Partitions that a scan first asks of each shard, and at most.
pub(crate) const DIRECTORY_PAGE_MIN: i32 = 16;
/// Partitions that a scan asks of each shard at most.
pub(crate) const DIRECTORY_PAGE_MAX: i32 = 512;
/// Partitions into which the list of spaces is spread. Part of the stored form.
pub(crate) const REGISTRY_BUCKETS: u8 = 16;
