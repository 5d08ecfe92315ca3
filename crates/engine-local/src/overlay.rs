//! Rows that are decided but not yet durable.
//!
//! Writers of one partition take turns on its stripe. A writer sees the changes of those before it here, without
//! waiting for their sync; so a hot partition has many writes in one commit. Readers never look here.
//!
//! Invariant: a row is here from the moment its write is queued until that write is committed. The stripe's lock
//! is held around both, so a row that is not here is in the store as last decided.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tavola_engine::StoredRow;
use tavola_model::DateTime;

use crate::catalog::Space;
use crate::settings::STRIPES;

/// All stripes.
pub(crate) struct Overlay {
    stripes: Vec<Mutex<Stripe>>,
    hasher: RandomState,
}

/// The pending rows of the partitions that share a lock, by the slot of their space and their stored key.
pub(crate) type Stripe = HashMap<Bytes, PendingRow>;

/// What a row will be.
pub(crate) struct PendingRow {
    /// The tick of the write that decided it.
    pub(crate) tick: DateTime,
    /// `None` if it is deleted.
    pub(crate) row: Option<StoredRow>,
}

/// Which stripe a partition belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StripeIndex(usize);

impl Overlay {
    pub(crate) fn new() -> Self {
        Self { stripes: (0..STRIPES).map(|_| Mutex::default()).collect(), hasher: RandomState::new() }
    }

    pub(crate) fn stripe_of(&self, space: &Space, partition: &[u8]) -> StripeIndex {
        let hash = self.hasher.hash_one((space.slot, partition));
        let stripes = u64::try_from(self.stripes.len()).expect("a small number");
        StripeIndex(usize::try_from(hash % stripes).expect("less than the number of stripes"))
    }

    /// Waits for the turn. A `decide` that panicked changed nothing, so a poisoned stripe is still whole.
    pub(crate) fn lock(&self, stripe: StripeIndex) -> MutexGuard<'_, Stripe> {
        self.stripes[stripe.0].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the rows of a write that is over, unless a later write has decided them again.
    pub(crate) fn forget<'a>(
        &self,
        stripe: StripeIndex,
        tick: DateTime,
        keys: impl Iterator<Item = &'a Bytes>,
    ) {
        let mut pending = self.lock(stripe);
        for key in keys {
            if pending.get(key).is_some_and(|row| row.tick == tick) {
                pending.remove(key);
            }
        }
    }
}
