//! The storage contract: what every engine promises, and the suite that holds it to that.
//!
//! Everything the services keep is rows in spaces. A space is an ordered map from (partition bytes, row
//! bytes) to (version, body). There is one way to write, [`Engine::transact`], and it touches one partition.

mod engine;
mod error;
mod space;

pub use engine::{Change, Decision, Engine, ScannedRow, StoredRow, Transacted};
pub use error::EngineError;
pub use space::{Position, ScanRange, SpaceId};
