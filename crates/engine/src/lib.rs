//! The storage contract: what every engine promises, and the suite that holds it to that.
//!
//! Everything the services keep is rows in spaces. A space is an ordered map from (partition bytes, row
//! bytes) to (version, body). There is one way to write, [`Engine::transact`], and it touches one partition; rows that
//! move here from another store come in by [`Engine::load`].
//!
//! The bytes of blobs are contents beside the rows, with a contract of their own, [`ContentStore`].

mod byte_source;
#[cfg(feature = "conformance")]
pub mod conformance;
mod content;
mod engine;
mod error;
mod fault;
mod fault_contents;
mod memory;
mod memory_contents;
mod pieces;
mod space;
mod tick;

pub use byte_source::{ByteSource, BytesSource, PIECE_BYTES_MAX, SourceError};
pub use content::{
    Content, ContentCursor, ContentError, ContentId, ContentIds, ContentSize, ContentStore, FoundContent,
    NamedContents, Owner, VisitContent,
};
pub use engine::{Change, Decide, Decision, Engine, LoadedRow, ScannedRow, StoredRow, Transacted, Visit};
pub use error::{Cause, EngineError};
pub use fault::{FaultEngine, FaultSettings};
pub use fault_contents::{ContentFaultSettings, FaultContents};
pub use memory::MemoryEngine;
pub use memory_contents::MemoryContents;
pub use pieces::Pieces;
pub use space::{Position, ScanRange, SpaceId};
pub use tick::TickClock;
