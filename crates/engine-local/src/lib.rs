//! The embedded engine: the storage contract on one machine's disk.
//!
//! A write goes down this list once: `engine` orders it within its partition and lets `decide` choose the
//! changes; `overlay` shows them to the next writer of the partition; `commit_queue` holds them; `commit` makes all that
//! are waiting durable with one sync of the `journal`, shows them to readers and answers. Reads see only what is durable.
//!
//! Below that is the `store`: rows of all spaces in a few shared `tree`s of lsm-tree. `flush` writes the newest rows to
//! table files, `compaction` keeps the number of files small that a read has to look into, `reclaim` gives back the disk of
//! dropped spaces. Contents of blobs are in extent files beside the rows (`content`). `inspect` checks a store before `recover` opens it or `verify` checks it.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use tavola_engine::{Engine, SpaceId};
//! use tavola_engine_local::{LocalEngine, LocalSettings};
//! use tavola_system::SystemClock;
//!
//! let engine = LocalEngine::open(LocalSettings::new("data"), Arc::new(SystemClock))?;
//! let row = engine.get(SpaceId::CATALOG, b"partition", b"row").await?;
//! # Ok(())
//! # }
//! ```

mod backup;
mod catalog;
mod commit;
mod commit_queue;
mod compaction;
mod content;
mod create;
mod disk;
mod engine;
mod flush;
mod folder;
mod inspect;
mod journal;
mod manifest;
mod metrics;
mod overlay;
mod reclaim;
mod recover;
mod row;
mod settings;
mod snapshot;
mod store;
mod tree;
mod verify;

pub use backup::{BackupError, BackupReport};
pub use content::{ContentUsage, LocalContents};
pub use engine::LocalEngine;
pub use folder::OpenError;
pub use metrics::{COMMIT_WRITES_BOUNDS, LocalMetrics, SYNC_BOUNDS_NS};
pub use settings::LocalSettings;
pub use verify::{VerifyProblem, VerifyReport, verify, verify_naming};
