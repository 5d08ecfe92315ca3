//! Rows from another store, with the versions they have there.
//!
//! A load is a writer in the lane of its partition like any other: one conditional batch, with the entry of the
//! directory first. It leaves the head at the tick of the store that the rows come from or above it, so every version
//! given later is above theirs. Rows that are there as they are are not written again, and a load that would replace a
//! row that was written since fails and changes nothing.

use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{EngineError, LoadedRow};
use tavola_model::DateTime;

use crate::engine::Core;
use crate::store::{Partition, stored_key};
use crate::view::View;

impl Core {
    /// Keeps rows with their versions.
    pub async fn load(
        self: &Arc<Self>,
        partition: Partition,
        tick: DateTime,
        rows: &[LoadedRow],
    ) -> Result<(), EngineError> {
        let keys: Arc<[Bytes]> = rows.iter().map(|loaded| stored_key(&loaded.row)).collect();
        let chosen = keys.clone();
        let mut choose = |view: &mut View| view.load(tick, &chosen, rows);
        self.take_turn(partition, keys, &mut choose).await.map(|_| ())
    }
}
