//! The distributed engine: the storage contract on Apache Cassandra, for any number of servers at once.
//!
//! A partition of a space is a partition of one CQL table. It has a head with the tick of its last write, and every
//! write is one conditional batch that takes the head from the tick that was read to a new one. So whatever was read
//! of the partition still holds when the write is kept, whoever else writes. Everything else follows from that:
//!
//! - `lane`: the writers of a partition in this server are decided one after the other and committed together.
//! - `commit`: a batch whose outcome is unclear is simply sent again, because it can be kept only once; the head
//!   remembers its last writes, and tells whether ours is among them.
//! - `directory`: partitions are found in key order in a sorted list beside them. A partition is listed before its
//!   first row is written, and unlisted by a write of its head, so the list never lacks one that has rows.
//! - `spaces`: which spaces exist is rows too. A server may rely on a look at them for the time of a lease, and
//!   whoever drops a space waits that long.
//! - `content`: the bytes of blobs, in rows of a mebibyte without conditions.
//! - `members`: the servers that are up, so that they can agree on who writes where. Nothing depends on it.
//!
//! `docs/cluster.md` tells how to run it, and `docs/decisions/0004-cassandra.md` why it is as it is.

mod census;
mod commit;
mod content;
mod directory;
mod engine;
mod head;
mod janitor;
mod lane;
mod load;
mod members;
mod metrics;
mod safety;
mod scan;
mod schema;
mod settings;
mod spaces;
mod store;
mod tls;
mod view;

pub use content::CqlContents;
pub use engine::{ConnectError, CqlEngine, NodeState};
pub use members::{ANNOUNCE_EVERY, Listed, Members};
pub use metrics::CqlMetrics;
pub use safety::NodeReport;
pub use schema::init;
pub use settings::{ClientIdentity, ClusterSettings, CqlSettings, Login, TlsSettings};
