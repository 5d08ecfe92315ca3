//! Which spaces exist, for all servers, and for how long one may rely on it.
//!
//! The list is rows like any other, in a space of its own with a few partitions. A space is kept under a fresh id each
//! time it is made, so whoever still holds the old id writes where nobody reads. Dropping a space moves it, in one
//! transaction, to the list of those whose rows are to be removed.
//!
//! Invariant: once a drop is acknowledged, no server acknowledges anything on the space. A server holds a lease that
//! began before it looked; it confirms the lease before it answers; and whoever drops waits out the leases.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tavola_engine::{Change, Decision, EngineError, Position, ScanRange, SpaceId, StoredRow, Transacted};
use tavola_model::DateTime;

use crate::engine::{Core, read_failed};
use crate::lane::fresh_id;
use crate::settings::REGISTRY_BUCKETS;
use crate::store::{Partition, StoredSpace, stored_key};

/// The space of the list.
const REGISTRY: StoredSpace = [0xFF; 16];
/// The catalog is there from the start and never dropped.
const CATALOG: StoredSpace = [0; 16];
const LIVING_ROW: u8 = b's';
const DROPPED_ROW: u8 = b'd';
/// Spaces that are remembered before those whose leases are over are forgotten.
const KNOWN_MAX: usize = 10_000;
/// How much longer than a lease a drop waits, in percent: clocks do not run equally fast.
const WAIT_PERCENT: u32 = 125;

/// What this server remembers of spaces.
pub(crate) struct Spaces {
    lease_time: Duration,
    known: Mutex<HashMap<SpaceId, SpaceLease>>,
}

/// That a space existed, and until when that may be relied on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceLease {
    pub space: SpaceId,
    pub stored: StoredSpace,
    began: Instant,
    /// `None` for one that never ends.
    until: Option<Instant>,
}

/// A dropped space whose rows are still there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dropped {
    pub bucket: u8,
    pub stored: StoredSpace,
    pub since: DateTime,
}

impl Spaces {
    pub fn new(lease_time: Duration) -> Self {
        Self { lease_time, known: Mutex::default() }
    }

    /// For how long a look at a space holds.
    pub fn lease_time(&self) -> Duration {
        self.lease_time
    }

    /// A lease of the space, or that it is missing.
    pub async fn lease(&self, core: &Arc<Core>, space: SpaceId) -> Result<SpaceLease, EngineError> {
        let now = Instant::now();
        if space == SpaceId::CATALOG {
            return Ok(SpaceLease { space, stored: CATALOG, began: now, until: None });
        }
        match self.known(space, now) {
            Some(lease) => {
                if now.duration_since(lease.began) > self.lease_time / 2 {
                    self.renew_behind(core, lease);
                }
                Ok(lease)
            }
            None => self.look(core, space).await,
        }
    }

    /// Makes sure that what was done under the lease may be answered.
    pub async fn confirm(&self, core: &Core, lease: &mut SpaceLease) -> Result<(), EngineError> {
        let now = Instant::now();
        if lease.holds(now) {
            return Ok(());
        }
        // Somebody may have looked meanwhile.
        let again = match self.known(lease.space, now) {
            Some(known) => known,
            None => self.look(core, lease.space).await?,
        };
        if again.stored != lease.stored {
            return Err(EngineError::SpaceMissing { space: lease.space });
        }
        *lease = again;
        Ok(())
    }

    /// The last look at the space, if it may be relied on.
    fn known(&self, space: SpaceId, now: Instant) -> Option<SpaceLease> {
        self.lock().get(&space).copied().filter(|lease| lease.holds(now))
    }

    fn forget(&self, space: SpaceId) {
        self.lock().remove(&space);
    }

    /// Renews a lease that is half over while others go on with it, once.
    fn renew_behind(&self, core: &Arc<Core>, lease: SpaceLease) {
        // Whoever comes next takes it for fresh; it ends when it did before.
        self.lock().insert(lease.space, SpaceLease { began: Instant::now(), ..lease });
        let core = core.clone();
        tokio::spawn(async move {
            if let Err(EngineError::SpaceMissing { space }) = core.spaces.look(&core, lease.space).await {
                core.spaces.forget(space);
            }
        });
    }

    async fn look(&self, core: &Core, space: SpaceId) -> Result<SpaceLease, EngineError> {
        let began = Instant::now();
        let row = core.get(&bucket_partition(bucket_of(space)), &living_key(space)).await?;
        let stored = row.map(|row| decode_living(&row)).transpose()?;
        let Some(stored) = stored else {
            self.forget(space);
            return Err(EngineError::SpaceMissing { space });
        };
        let lease = SpaceLease { space, stored, began, until: Some(began + self.lease_time) };
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            known.retain(|_, lease| lease.holds(began));
        }
        known.insert(space, lease);
        Ok(lease)
    }

    /// Nothing under the lock can panic halfway, so what is behind a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, HashMap<SpaceId, SpaceLease>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SpaceLease {
    fn holds(&self, now: Instant) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

impl Core {
    /// Adds a space to the list, if it is not in it.
    pub async fn create_space(self: &Arc<Self>, space: SpaceId) -> Result<(), EngineError> {
        if space == SpaceId::CATALOG {
            return Ok(());
        }
        let mut stored = [0; 16];
        stored[..8].copy_from_slice(&self.clock.now().ticks().to_be_bytes());
        stored[8..].copy_from_slice(&fresh_id().to_be_bytes());
        let keys: Arc<[Bytes]> = [living_key(space)].into();
        let mut decide = |_, found: &[Option<StoredRow>]| match found[0] {
            Some(_) => Decision::Refuse,
            None => Decision::Apply(vec![Change::Put { index: 0, body: Bytes::copy_from_slice(&stored) }]),
        };
        self.transact(bucket_partition(bucket_of(space)), keys, &mut decide).await.map(|_| ())
    }

    /// Takes a space off the list, if it is in it, and waits until no server relies on it. Also if it is not in it:
    /// whoever took it off may have done so just now, and wait still or never answer.
    pub async fn drop_space(self: &Arc<Self>, space: SpaceId) -> Result<(), EngineError> {
        let bucket = bucket_of(space);
        let partition = bucket_partition(bucket);
        while let Some(row) = self.get(&partition, &living_key(space)).await? {
            let stored = decode_living(&row)?;
            let now = self.clock.now();
            let keys: Arc<[Bytes]> = [living_key(space), dropped_key(&stored)].into();
            let mut decide = |_, found: &[Option<StoredRow>]| match &found[0] {
                Some(row) if row.body[..] == stored => Decision::Apply(vec![
                    Change::Delete { index: 0 },
                    Change::Put { index: 1, body: Bytes::copy_from_slice(&now.ticks().to_be_bytes()) },
                ]),
                _ => Decision::Refuse,
            };
            if let Transacted::Applied(_) = self.transact(partition.clone(), keys, &mut decide).await? {
                break;
            }
        }
        self.spaces.forget(space);
        tokio::time::sleep(self.spaces.lease_time * WAIT_PERCENT / 100).await;
        Ok(())
    }

    /// All spaces in the list.
    pub async fn list_spaces(&self) -> Result<Vec<SpaceId>, EngineError> {
        let mut spaces = vec![SpaceId::CATALOG];
        self.scan_registry(LIVING_ROW, |_, id, _| spaces.push(SpaceId(id))).await?;
        Ok(spaces)
    }

    /// Spaces whose rows are to be removed.
    pub async fn dropped_spaces(&self) -> Result<Vec<Dropped>, EngineError> {
        let mut dropped = Vec::new();
        self.scan_registry(DROPPED_ROW, |bucket, stored, row| {
            let ticks = row.body[..].try_into().map(u64::from_be_bytes).ok();
            let since = ticks.and_then(DateTime::from_ticks).unwrap_or(row.version);
            dropped.push(Dropped { bucket, stored, since });
        })
        .await?;
        Ok(dropped)
    }

    /// Takes a space off the list of those whose rows are to be removed.
    pub async fn forget_dropped(self: &Arc<Self>, dropped: &Dropped) -> Result<(), EngineError> {
        let keys: Arc<[Bytes]> = [dropped_key(&dropped.stored)].into();
        let mut decide = |_, _: &[_]| Decision::Apply(vec![Change::Delete { index: 0 }]);
        self.transact(bucket_partition(dropped.bucket), keys, &mut decide).await.map(|_| ())
    }

    /// The ids under which living spaces are kept.
    pub async fn stored_spaces(&self) -> Result<Vec<StoredSpace>, EngineError> {
        let mut spaces = vec![CATALOG];
        let mut damaged = false;
        self.scan_registry(LIVING_ROW, |_, _, row| match decode_living(row) {
            Ok(stored) => spaces.push(stored),
            Err(_) => damaged = true,
        })
        .await?;
        if damaged { Err(damaged_list()) } else { Ok(spaces) }
    }

    async fn scan_registry(
        &self,
        kind: u8,
        mut take: impl FnMut(u8, [u8; 16], &StoredRow) + Send,
    ) -> Result<(), EngineError> {
        let mut lease =
            SpaceLease { space: SpaceId::CATALOG, stored: REGISTRY, began: Instant::now(), until: None };
        for bucket in 0..REGISTRY_BUCKETS {
            let range = ScanRange {
                from: Position::at(&[bucket], &[kind]),
                before: Some(Position::at(&[bucket], &[kind + 1])),
            };
            let mut is_damaged = false;
            let mut visit = |row: tavola_engine::ScannedRow<'_>| {
                match row.row[1..].try_into() {
                    Ok(id) => take(bucket, id, &StoredRow { version: row.version, body: row.body }),
                    Err(_) => is_damaged = true,
                }
                ControlFlow::Continue(())
            };
            self.scan(&mut lease, &range, &mut visit).await?;
            if is_damaged {
                return Err(damaged_list());
            }
        }
        Ok(())
    }

    /// One row, tried until patience ends.
    pub async fn get(&self, partition: &Partition, key: &[u8]) -> Result<Option<StoredRow>, EngineError> {
        let mut patience = crate::commit::Patience::new();
        self.patiently(&mut patience, || self.store.read_row(partition, key)).await.map_err(read_failed)
    }
}

fn bucket_of(space: SpaceId) -> u8 {
    let hash = xxhash_rust::xxh3::xxh3_64(&space.0) % u64::from(REGISTRY_BUCKETS);
    u8::try_from(hash).expect("there are few buckets")
}

fn bucket_partition(bucket: u8) -> Partition {
    Partition { space: REGISTRY, bytes: Bytes::copy_from_slice(&[bucket]) }
}

fn living_key(space: SpaceId) -> Bytes {
    stored_key(&[&[LIVING_ROW], &space.0[..]].concat())
}

fn dropped_key(stored: &StoredSpace) -> Bytes {
    stored_key(&[&[DROPPED_ROW], &stored[..]].concat())
}

fn decode_living(row: &StoredRow) -> Result<StoredSpace, EngineError> {
    row.body[..].try_into().map_err(|_| damaged_list())
}

fn damaged_list() -> EngineError {
    EngineError::Damaged { space: SpaceId(REGISTRY), what: "the list of spaces" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_relied_on_until_it_ends_and_then_the_next_one_is() {
        let (spaces, space) = (Spaces::new(Duration::from_secs(1)), SpaceId([7; 16]));
        let now = Instant::now();
        let looked_at =
            |began| SpaceLease { space, stored: [1; 16], began, until: Some(began + spaces.lease_time) };
        spaces.lock().insert(space, looked_at(now));
        assert!(spaces.known(space, now + Duration::from_millis(999)).is_some());
        let end = now + Duration::from_secs(1);
        assert!(spaces.known(space, end).is_none());
        spaces.lock().insert(space, looked_at(now + Duration::from_millis(500)));
        assert!(spaces.known(space, end).is_some());
        spaces.forget(space);
        assert!(spaces.known(space, end).is_none());
    }

    #[test]
    fn keys_of_the_list_of_spaces_keep_their_layout() {
        let space = SpaceId([7; 16]);
        assert_eq!(living_key(space), [&[1, b's'][..], &[7; 16]].concat());
        assert_eq!(dropped_key(&[9; 16]), [&[1, b'd'][..], &[9; 16]].concat());
        assert_eq!((REGISTRY, REGISTRY_BUCKETS), ([0xFF; 16], 16));
        assert_eq!([SpaceId::CATALOG, space, SpaceId([9; 16])].map(bucket_of), [8, 3, 6]);
        assert_eq!(bucket_partition(5).bytes, [5][..]);
        assert_eq!((crate::store::HEAD_KEY, &stored_key(b"")[..]), (&[0][..], &[1][..]));
    }
}
