//! How a table is written to: sizes, batches, deletes, and writes that fail on the version.

use serde::{Deserialize, Serialize};
use tavola_model::ErrorCode;
use tavola_telemetry::{AccessRecord, Target};

use super::table::{is_conflict, short};
use crate::sketch::HeavyHitters;

/// Bytes of a request from which an entity counts as near the largest: strings count two bytes a character there and
/// mostly one in a request, so half a mebibyte of text is a whole one.
pub(crate) const NEAR_BODY_BYTES: u64 = 384 * 1024;
/// Properties from which an entity counts as near the most.
pub(crate) const NEAR_PROPERTIES: u16 = 200;

/// Kinds of writes that succeeded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Writes {
    pub inserts: u64,
    pub upserts: u64,
    pub updates: u64,
    pub deletes: u64,
    pub batches: u64,
    /// Batches of one operation.
    pub batches_of_one: u64,
    pub batch_operations: u64,
    /// Operations of batches that insert, and that delete.
    #[serde(default)]
    pub batch_inserts: u64,
    #[serde(default)]
    pub batch_deletes: u64,
}

impl Writes {
    pub fn observe(&mut self, record: &AccessRecord) {
        let times = u64::from(record.weight.max(1));
        if let Target::Batch { operations, inserts, deletes, .. } = &record.target {
            self.batches += times;
            self.batch_inserts += u64::from(*inserts) * times;
            self.batch_deletes += u64::from(*deletes) * times;
            self.batch_operations += u64::from(*operations) * times;
            self.batches_of_one += if *operations == 1 { times } else { 0 };
            return;
        }
        let counter = match record.operation {
            Some("InsertEntity") => &mut self.inserts,
            Some("InsertOrReplaceEntity" | "InsertOrMergeEntity") => &mut self.upserts,
            Some("UpdateEntity" | "MergeEntity") => &mut self.updates,
            Some("DeleteEntity") => &mut self.deletes,
            _ => return,
        };
        *counter += times;
    }

    pub fn halve(&mut self) {
        for counter in [
            &mut self.inserts,
            &mut self.upserts,
            &mut self.updates,
            &mut self.deletes,
            &mut self.batches,
            &mut self.batches_of_one,
            &mut self.batch_operations,
            &mut self.batch_inserts,
            &mut self.batch_deletes,
        ] {
            *counter /= 2;
        }
    }
}

/// How large entities are written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct WriteSizes {
    pub writes: u64,
    pub bytes: u64,
    pub bytes_max: u64,
    pub near_bytes: u64,
    pub refused_bytes: u64,
    pub properties: u64,
    pub properties_max: u16,
    pub near_properties: u64,
    pub refused_properties: u64,
    /// The keys of the largest and of the widest.
    pub largest: Option<(String, String)>,
    pub widest: Option<(String, String)>,
}

impl WriteSizes {
    pub fn observe(&mut self, record: &AccessRecord) {
        // Of a batch only the sum of the bytes is known; each entity counts as one of average size.
        let (partition, row, properties, entities) = match &record.target {
            Target::Entity { partition, row, properties } => (partition, row, properties, 1),
            Target::Batch { partition, row, operations, properties_max, .. } => {
                (partition, row, properties_max, u64::from((*operations).max(1)))
            }
            Target::Query(_) | Target::Whole => return,
        };
        let bytes = record.bytes_in / entities;
        let times = u64::from(record.weight.max(1));
        match record.code {
            Some(ErrorCode::EntityTooLarge) => self.refused_bytes += times,
            Some(ErrorCode::TooManyProperties) => self.refused_properties += times,
            _ => {}
        }
        // A read says which properties it wants.
        if *properties == 0 || record.operation == Some("GetEntity") {
            return;
        }
        let all = entities * times;
        self.writes += all;
        self.bytes += record.bytes_in * times;
        self.properties += u64::from(*properties) * all;
        self.near_bytes += if bytes >= NEAR_BODY_BYTES { all } else { 0 };
        self.near_properties += if *properties >= NEAR_PROPERTIES { times } else { 0 };
        if bytes > self.bytes_max {
            self.bytes_max = bytes;
            self.largest = Some((short(partition), short(row)));
        }
        if *properties > self.properties_max {
            self.properties_max = *properties;
            self.widest = Some((short(partition), short(row)));
        }
    }

    pub fn halve(&mut self) {
        for counter in [
            &mut self.writes,
            &mut self.bytes,
            &mut self.near_bytes,
            &mut self.refused_bytes,
            &mut self.properties,
            &mut self.near_properties,
            &mut self.refused_properties,
        ] {
            *counter /= 2;
        }
    }
}

/// Writes that were refused because the entity had changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Conflicts {
    pub failed: u64,
    /// Updates, merges and deletes that succeeded.
    pub succeeded: u64,
    /// By `partition / row`.
    pub keys: HeavyHitters<String>,
}

impl Default for Conflicts {
    fn default() -> Self {
        Self { failed: 0, succeeded: 0, keys: HeavyHitters::new(16) }
    }
}

impl Conflicts {
    pub fn observe(&mut self, record: &AccessRecord) {
        let times = u64::from(record.weight.max(1));
        if matches!(record.target, Target::Query(_) | Target::Whole) {
            return;
        }
        if is_conflict(record) {
            self.failed += times;
            self.keys.add(conflict_name(&record.target).as_str(), times);
        } else if (200..300).contains(&record.status)
            && matches!(
                record.operation,
                Some("UpdateEntity" | "MergeEntity" | "DeleteEntity" | "EntityGroupTransaction")
            )
        {
            self.succeeded += times;
        }
    }
}

fn conflict_name(target: &Target) -> String {
    match target {
        Target::Entity { partition, row, .. } => format!("{} / {}", short(partition), short(row)),
        Target::Batch { partition, .. } => format!("{} / batch", short(partition)),
        Target::Query(_) | Target::Whole => String::new(),
    }
}
