//! Listeners, limits and the request pipeline. The only crate that knows hyper.
//!
//! A [`Pipeline`] answers one request; a [`Frontend`] feeds it from listeners until told to stop, then lets the
//! requests under way finish. Where several servers share a store, an [`Affinity`] hands writes to the one that owns
//! their partition.

mod accept;
mod accounts;
mod answer;
mod azure_limits;
mod blob;
mod body;
mod budget;
mod cluster;
mod connections;
mod dispatch;
mod head;
mod ids;
mod listen;
mod log_detail;
mod metadata_case;
mod observe;
mod pace;
mod pipeline;
mod queue;
mod receive;
mod response_case;
mod settings;
mod table;
mod tls;

pub use accept::accept;
pub use accounts::LiveAccounts;
pub use azure_limits::AzureLimits;
pub use cluster::{
    Affinity, AffinityMetrics, Fingerprint, Member, MemberPort, OwnedCount, OwnedPartition, OwningServer,
    PartitionHash,
};
pub use listen::{Frontend, FrontendMetrics, Listener, Shutdown};
pub use pipeline::{Pipeline, PipelineSettings};
pub use settings::FrontendSettings;
pub use tls::{Tls, TlsError};
