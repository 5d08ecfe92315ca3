//! What is kept of a blob that is overwritten or deleted.

use tavola_model::{DateTime, StorageService};

use super::Blobs;
use super::change::BlobLocation;
use super::record::{Body, Record};
use super::rows::{Deleted, Earlier, Role};
use crate::failure::Failure;

/// What an account keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    /// Every state that is overwritten or deleted is a version.
    pub versions: bool,
    /// Days for which what was deleted or overwritten can be had back.
    pub deleted_days: Option<u32>,
}

impl Keep {
    /// Whether a write keeps the state that it replaces.
    pub fn keeps_overwritten(self) -> bool {
        self.versions || self.deleted_days.is_some()
    }

    /// The state that a write replaces, as it is kept.
    pub fn overwritten(self, record: &Record, now: DateTime) -> Earlier {
        let record = Record { lease: None, snapshots: 0, ..record.clone() };
        if self.versions {
            return Earlier { role: Role::Version, deleted: None, record };
        }
        Earlier { role: Role::Snapshot, deleted: self.deleted(now), record }
    }

    /// Until when something that is deleted now can be had back.
    pub fn deleted(self, now: DateTime) -> Option<Deleted> {
        let days = self.deleted_days?;
        let until = now.plus_seconds(u64::from(days) * 24 * 60 * 60).unwrap_or(DateTime::MAX);
        Some(Deleted { at: now, until })
    }
}

impl Record {
    /// The time under which this state is kept when it is one no more: its version, if it has one.
    pub fn kept_at(&self) -> DateTime {
        self.version.unwrap_or(self.changed)
    }

    /// The version of a state that follows. That of a snapshot may be ahead of the clock.
    pub fn next_version(&self, now: DateTime) -> DateTime {
        self.version.map_or(now, |version| now.max(next_tick(version)))
    }

    /// This state, to be kept beside the record, which goes on with the same body. What is written to its pages from now
    /// on belongs to `generation`, or to the newest one if nothing has been written to that yet. A blob that waits for the
    /// bytes of a copy has no state to be kept: nobody would give them to it.
    pub fn fork(&mut self, generation: u64, is_newest_unwritten: bool) -> Self {
        assert!(self.pending_copy().is_none(), "a state that is kept waits for no copy");
        let mut kept = Self { lease: None, snapshots: 0, is_shared: true, ..self.clone() };
        self.is_shared = true;
        if let (Body::Pages { generations, .. }, Body::Pages { generations: then, .. }) =
            (&mut self.body, &mut kept.body)
        {
            if is_newest_unwritten {
                then.remove(0);
            } else {
                generations.insert(0, generation);
            }
        }
        kept
    }
}

pub(crate) fn next_tick(time: DateTime) -> DateTime {
    DateTime::from_ticks(time.ticks() + 1).unwrap_or(DateTime::MAX)
}

impl Blobs {
    /// What the account of a blob keeps.
    pub async fn keep_policy(&self, location: &BlobLocation) -> Result<Keep, Failure> {
        let found = self.properties.get(&location.account, StorageService::Blob).await?;
        let deleted_days = found.properties.blob.delete_retention.days;
        Ok(Keep { versions: self.versions, deleted_days })
    }
}
