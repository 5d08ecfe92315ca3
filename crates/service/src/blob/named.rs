//! Which contents the rows of containers name, for a check of a store that no server uses.
//!
//! Also rows that nobody sees any more count: they are removed before the contents that they name are dropped. So a content
//! that any row of a living container names must be there.

use std::collections::HashSet;

use tavola_engine::{Content, NamedContents, ScannedRow, SpaceId};

use super::cell::Cell;
use super::pieces::{Data, decode_pieces};
use super::record::{Body, Record};
use super::rows::{EARLIER, Earlier, PAGES, PIECES, RECORD_ROW, STAGED, decode_data};
use crate::catalog::{KEPT_ROW, Resource, ResourceKind};

/// Knows the contents that rows of containers name.
#[derive(Debug, Default)]
pub struct BlobContents {
    /// The spaces of containers that are not deleted, or that can be restored.
    containers: HashSet<SpaceId>,
}

impl NamedContents for BlobContents {
    fn learn(&mut self, row: &ScannedRow<'_>) {
        let is_kept = row.row.first() == Some(&KEPT_ROW);
        if !is_kept && row.row.first() != Some(&ResourceKind::Container.row_letter()) {
            return;
        }
        if let Ok(container) = Resource::decode(&row.body)
            && (is_kept || container.deleted_until.is_none())
        {
            self.containers.insert(container.space);
        }
    }

    fn visit(&self, space: SpaceId, row: &ScannedRow<'_>, visit: &mut dyn FnMut(&Content)) {
        // Partitions that begin with a zero byte are the index of tags, whose rows are names of blobs.
        let is_tag = row.partition.first() == Some(&0);
        if is_tag || !self.containers.contains(&space) {
            return;
        }
        // A row that says nothing is found by whoever reads it.
        let mut show = |data: &Data| {
            if let Data::Content(content) = data {
                visit(content);
            }
        };
        let mut show_record = |record: &Record| {
            if let Body::Data(data) = &record.body {
                show(data);
            }
        };
        match row.row.first() {
            _ if row.row == RECORD_ROW => {
                Record::decode(&row.body).iter().for_each(&mut show_record);
            }
            Some(&EARLIER) => {
                Earlier::decode(&row.body).iter().for_each(|earlier| show_record(&earlier.record));
            }
            Some(&PIECES) => {
                decode_pieces(&row.body).iter().flatten().for_each(|piece| show(&piece.data));
            }
            Some(&STAGED) => decode_data(&row.body).iter().for_each(show),
            Some(&PAGES) => {
                Cell::decode(&row.body).iter().flat_map(Cell::data).for_each(show);
            }
            _ => {}
        }
    }
}
