//! Listeners, limits and the request pipeline. The only crate that knows hyper.
//!
//! A [`Pipeline`] answers one request; a [`Frontend`] feeds it from listeners until told to stop, then lets the
//! requests under way finish. Where several servers share a store, an [`Affinity`] hands writes to the one that owns
//! their partition.

mod accounts;
mod case;
mod forward;
mod ids;
mod listen;
mod owner;
mod pace;
mod peer;
mod pinned;
mod pipeline;
mod receive;
mod recent;
mod settings;
mod spelling;
mod tls;
mod understand;

pub use accounts::LiveAccounts;
pub use forward::{Affinity, AffinityMetrics};
pub use listen::{Frontend, Listener, Shutdown};
pub use owner::{Member, MemberPort};
pub use pinned::Fingerprint;
pub use pipeline::{Pipeline, PipelineSettings};
pub use settings::FrontendSettings;
pub use tls::{Tls, TlsError};
