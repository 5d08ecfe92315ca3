//! The console: a listener of its own, sessions, an API for the pages, and the pages themselves.
//!
//! Reading order: [`Console`] is what the server starts; `guard.rs` decides whose requests are looked at; `session.rs`
//! knows who is signed in; `respond.rs` is the list of all paths. Entities, messages and blobs are read and written by
//! `data.rs`, which takes requests of the storage services and executes their commands: there is no second copy of what
//! a command means. The pages are built from `web/` and embedded as they are (`assets.rs`).
//!
//! The rule: nothing is shown or changed without a session for the account, and nothing that a browser would send on
//! behalf of another site is taken for a request of ours.

mod api;
mod assets;
mod body;
mod connect;
mod data;
mod events;
mod guard;
mod holding;
mod insight;
mod listen;
mod owners;
mod poison;
mod respond;
mod sas;
mod series;
mod server_view;
mod session;
mod sight;
mod tail;

pub use connect::ServiceUrl;
pub use listen::{Console, ConsoleParts, ConsoleSettings};
pub use server_view::{DiskSpace, Growth, Health, HealthFigure, MemberView, NodeView, OwnerView, ServerView};
pub use tail::Tail;
