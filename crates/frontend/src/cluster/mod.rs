//! Servers that share one store: who is there, who owns a partition, and how a write gets to its owner.
//!
//! All of it only saves work. Any server may execute any request at any time; the store keeps that right.

mod forward;
mod owner;
mod peer;
mod pinned;
mod recent;

pub use forward::{Affinity, AffinityMetrics, OwnedCount, OwningServer};
pub(crate) use forward::{Forwarded, is_forwarded};
pub use owner::{Member, MemberPort, OwnedPartition, PartitionHash};
pub use pinned::Fingerprint;
pub(crate) use pinned::fingerprint;
