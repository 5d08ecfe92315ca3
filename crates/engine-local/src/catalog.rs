//! The catalog: which spaces there are, and where their rows are.
//!
//! A space has a slot, a number that is given once and never again. Its rows are in one of the shared trees, and their
//! keys begin with the slot. Making a space and dropping it are each a few rows of the tree `meta`; the rows of a
//! dropped space are dead from that moment on and are removed later (`reclaim.rs`).
//!
//! ```text
//! "s" | 16 bytes space id    tree u8 | slot u64       a space
//! "d" | slot u64             tree u8                  a dropped space, until its rows are gone
//! "n"                        slot u64                 the next slot
//! "e" | extent u64           size u64                 an extent with contents of blobs (`content/`)
//! ```
//!
//! Numbers are big-endian; the values are those of rows (`row.rs`) with the space `ff…ff`.
//!
//! Invariant: a slot below the next one that no space has is dead, and stays so.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use lsm_tree::Slice;
use tavola_engine::{EngineError, SpaceId, StoredRow};
use tavola_model::DateTime;

use crate::row;
use crate::settings::DATA_TREES;

/// The tree of the catalog; the trees of rows come behind it.
pub(crate) const META_TREE: usize = 0;
/// Bytes of a slot, with which every key in a tree of rows begins.
pub(crate) const SLOT_LEN: usize = 8;
/// Stands for the tree `meta` in checksums; the services never choose it.
const META_SPACE: SpaceId = SpaceId([0xFF; 16]);

const SPACE: u8 = b's';
const DROPPED: u8 = b'd';
const NEXT_SLOT: u8 = b'n';
const EXTENT: u8 = b'e';

/// One space, from its making to its drop.
pub(crate) struct Space {
    pub(crate) id: SpaceId,
    pub(crate) slot: u64,
    pub(crate) tree: usize,
    /// Set by the committer when it begins to drop the space; a write that comes later is refused.
    refuses_writes: AtomicBool,
    /// Set when the drop is durable.
    is_gone: AtomicBool,
}

/// The catalog of an open store.
pub(crate) struct SpaceCatalog {
    state: RwLock<State>,
}

#[derive(Default)]
struct State {
    spaces: HashMap<SpaceId, Arc<Space>>,
    live: BTreeSet<u64>,
    next_slot: u64,
    /// Dropped spaces that may still have rows, and the trees these are in.
    dropped: BTreeMap<u64, usize>,
    /// Extents that there must be, and their sizes.
    extents: BTreeMap<u64, u64>,
}

/// The slots that were alive at one moment. A slot that was given later is alive too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveSlots {
    live: Vec<u64>,
    next_slot: u64,
}

/// A change of a row of the tree `meta`.
pub(crate) struct MetaChange {
    pub(crate) key: Slice,
    /// `None` deletes the row.
    pub(crate) value: Option<Slice>,
}

impl Space {
    fn new(id: SpaceId, slot: u64, tree: usize) -> Arc<Self> {
        Arc::new(Self {
            id,
            slot,
            tree,
            refuses_writes: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
        })
    }

    pub(crate) fn refuses_writes(&self) -> bool {
        self.refuses_writes.load(Ordering::Acquire)
    }

    pub(crate) fn refuse_writes(&self) {
        self.refuses_writes.store(true, Ordering::Release);
    }

    /// `Ok` unless the space is dropped. Asked after a read: what was read of a dropped space may not be all there was.
    pub(crate) fn check_exists(&self) -> Result<(), EngineError> {
        if self.is_gone.load(Ordering::Acquire) {
            return Err(EngineError::SpaceMissing { space: self.id });
        }
        Ok(())
    }

    /// The row in a stored value. `key` is without the slot.
    pub(crate) fn decode(&self, key: &[u8], value: Bytes) -> Result<StoredRow, EngineError> {
        row::decode_value(self.id, key, value).map_err(|what| self.damaged(what))
    }

    /// Tells damage, which stays, from a failure that may pass.
    pub(crate) fn read_failed(&self, error: lsm_tree::Error) -> EngineError {
        if !is_damage(&error) {
            return EngineError::Failed { cause: error.into() };
        }
        tracing::error!(space = %self.id, error = &error as &dyn std::error::Error, "store is damaged");
        self.damaged("a block of the store cannot be read")
    }

    pub(crate) fn damaged(&self, what: &'static str) -> EngineError {
        EngineError::Damaged { space: self.id, what }
    }
}

/// Whether a failed read tells of missing or changed bytes.
pub(crate) fn is_damage(error: &lsm_tree::Error) -> bool {
    use std::io::ErrorKind::{InvalidData, InvalidInput, NotFound, UnexpectedEof};
    match error {
        // The last comes of looking for the end of a file that has none.
        lsm_tree::Error::Io(cause) => {
            matches!(cause.kind(), NotFound | UnexpectedEof | InvalidData | InvalidInput)
        }
        _ => true,
    }
}

impl SpaceCatalog {
    /// An empty catalog, to which rows of `meta` are added.
    pub(crate) fn new() -> Self {
        Self { state: RwLock::new(State { next_slot: 1, ..State::default() }) }
    }

    /// Adds what a stored row of `meta` says, or tells what is wrong with it.
    pub(crate) fn load(&self, key: &[u8], value: Bytes) -> Result<(), &'static str> {
        const MALFORMED: &str = "a row of the catalog is malformed";
        let body = row::decode_value(META_SPACE, key, value)?.body;
        let slot_in = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).map_err(|_| MALFORMED);
        let (kind, name) = key.split_first().ok_or(MALFORMED)?;
        let mut state = self.write();
        match (*kind, body.split_first()) {
            (SPACE, Some((tree, slot))) => {
                let id = SpaceId(name.try_into().map_err(|_| MALFORMED)?);
                let space = Space::new(id, slot_in(slot)?, check_tree(*tree).ok_or(MALFORMED)?);
                if !state.live.insert(space.slot) {
                    return Err("two spaces have the same slot");
                }
                state.spaces.insert(id, space);
            }
            (DROPPED, Some((tree, []))) => {
                let tree = check_tree(*tree).ok_or(MALFORMED)?;
                state.dropped.insert(slot_in(name)?, tree);
            }
            (NEXT_SLOT, _) => state.next_slot = slot_in(&body)?,
            (EXTENT, _) => drop(state.extents.insert(slot_in(name)?, slot_in(&body)?)),
            _ => return Err(MALFORMED),
        }
        Ok(())
    }

    /// Tells what is wrong with the catalog as a whole, if anything.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let state = self.read();
        let highest = state.live.last().max(state.dropped.last_key_value().map(|(slot, _)| slot));
        if highest.is_some_and(|highest| *highest >= state.next_slot) {
            return Err("the catalog has a slot that was never given");
        }
        if state.live.iter().any(|slot| state.dropped.contains_key(slot)) {
            return Err("the catalog has a space that was dropped");
        }
        Ok(())
    }

    /// A space that exists.
    pub(crate) fn space(&self, space: SpaceId) -> Result<Arc<Space>, EngineError> {
        self.read().spaces.get(&space).cloned().ok_or(EngineError::SpaceMissing { space })
    }

    /// All spaces by their slots.
    pub(crate) fn spaces_by_slot(&self) -> HashMap<u64, Arc<Space>> {
        self.read().spaces.values().map(|space| (space.slot, space.clone())).collect()
    }

    /// All spaces, in the order of their ids.
    pub(crate) fn spaces(&self) -> Vec<Arc<Space>> {
        let mut all: Vec<_> = self.read().spaces.values().cloned().collect();
        all.sort_by_key(|space| space.id);
        all
    }

    /// The slots that are alive now.
    pub(crate) fn live_slots(&self) -> LiveSlots {
        let state = self.read();
        LiveSlots { live: state.live.iter().copied().collect(), next_slot: state.next_slot }
    }

    /// The next slot that will be given.
    pub(crate) fn next_slot(&self) -> u64 {
        self.read().next_slot
    }

    /// Dropped spaces whose rows may not all be gone: slot and tree.
    pub(crate) fn dropped(&self) -> Vec<(u64, usize)> {
        self.read().dropped.iter().map(|(slot, tree)| (*slot, *tree)).collect()
    }

    /// Shows a space that was made durably.
    pub(crate) fn insert(&self, space: Arc<Space>) {
        let mut state = self.write();
        state.next_slot = state.next_slot.max(space.slot + 1);
        state.live.insert(space.slot);
        state.spaces.insert(space.id, space);
    }

    /// Forgets a space that was dropped durably.
    pub(crate) fn remove(&self, space: &Space) {
        let mut state = self.write();
        space.is_gone.store(true, Ordering::Release);
        state.live.remove(&space.slot);
        state.dropped.insert(space.slot, space.tree);
        // The id may have been made again since.
        if state.spaces.get(&space.id).is_some_and(|current| current.slot == space.slot) {
            state.spaces.remove(&space.id);
        }
    }

    /// The extents that there must be, and their sizes.
    pub(crate) fn extents(&self) -> BTreeMap<u64, u64> {
        self.read().extents.clone()
    }

    /// Notes an extent that was made or removed durably.
    pub(crate) fn apply_extent(&self, change: ExtentChange) {
        match change {
            ExtentChange::Made { extent, size } => drop(self.write().extents.insert(extent, size)),
            ExtentChange::Removed { extent } => drop(self.write().extents.remove(&extent)),
        }
    }

    /// Forgets a dropped space whose rows are all gone.
    pub(crate) fn forget_dropped(&self, slot: u64) {
        self.write().dropped.remove(&slot);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveSlots {
    /// Whether the rows of a slot are of no use to anybody.
    pub(crate) fn is_dead(&self, slot: u64) -> bool {
        slot < self.next_slot && self.live.binary_search(&slot).is_err()
    }

    /// The dead slots around this one: from the first, up to but without the second. `None` if it is alive.
    pub(crate) fn dead_range(&self, slot: u64) -> Option<(u64, u64)> {
        if slot >= self.next_slot {
            return None;
        }
        let above = self.live.binary_search(&slot).err()?;
        let first = above.checked_sub(1).map_or(0, |below| self.live[below] + 1);
        let end = self.live.get(above).copied().unwrap_or(self.next_slot);
        Some((first, end))
    }
}

/// A new space at this slot, and the rows of `meta` that make it.
pub(crate) fn make_space(id: SpaceId, slot: u64) -> (Arc<Space>, [MetaChange; 2]) {
    let trees = u64::try_from(DATA_TREES).expect("a small number");
    let tree = 1 + usize::try_from(slot % trees).expect("a small number");
    let space = Space::new(id, slot, tree);
    let mut body = vec![u8::try_from(tree).expect("there are few trees")];
    body.extend_from_slice(&slot.to_be_bytes());
    let rows = [put(SPACE, &id.0, &body), put(NEXT_SLOT, &[], &(slot + 1).to_be_bytes())];
    (space, rows)
}

/// The rows of `meta` that drop a space.
pub(crate) fn drop_space(space: &Space) -> [MetaChange; 2] {
    let tree = u8::try_from(space.tree).expect("there are few trees");
    [delete(SPACE, &space.id.0), put(DROPPED, &space.slot.to_be_bytes(), &[tree])]
}

/// The row of `meta` that says that nothing is left of a dropped space.
pub(crate) fn forget_dropped(slot: u64) -> MetaChange {
    delete(DROPPED, &slot.to_be_bytes())
}

/// A change of what extents there must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtentChange {
    Made { extent: u64, size: u64 },
    Removed { extent: u64 },
}

/// The row of `meta` that makes or removes an extent.
pub(crate) fn change_extent(change: ExtentChange) -> MetaChange {
    match change {
        ExtentChange::Made { extent, size } => put(EXTENT, &extent.to_be_bytes(), &size.to_be_bytes()),
        ExtentChange::Removed { extent } => delete(EXTENT, &extent.to_be_bytes()),
    }
}

/// The slot that a key of a tree of rows begins with.
pub(crate) fn slot_of(key: &[u8]) -> Option<u64> {
    key.first_chunk::<SLOT_LEN>().map(|slot| u64::from_be_bytes(*slot))
}

fn meta_key(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind], name].concat()
}

fn put(kind: u8, name: &[u8], body: &[u8]) -> MetaChange {
    let key = meta_key(kind, name);
    let value = row::encode_value(META_SPACE, &key, DateTime::MIN, body);
    MetaChange { key: key.into(), value: Some(value.into()) }
}

fn delete(kind: u8, name: &[u8]) -> MetaChange {
    MetaChange { key: meta_key(kind, name).into(), value: None }
}

fn check_tree(tree: u8) -> Option<usize> {
    Some(usize::from(tree)).filter(|tree| (1..=DATA_TREES).contains(tree))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(catalog: &SpaceCatalog, change: &MetaChange) -> Result<(), &'static str> {
        catalog.load(&change.key, change.value.clone().unwrap().into())
    }

    #[test]
    fn rows_of_the_catalog_have_these_keys_and_bodies_and_are_read_back() {
        let id = SpaceId([7; 16]);
        let (space, rows) = make_space(id, 10);
        assert_eq!(rows[0].key[..], [&b"s"[..], &[7; 16]].concat());
        assert_eq!(rows[0].value.as_ref().unwrap()[17..], [3, 0, 0, 0, 0, 0, 0, 0, 10]);
        assert_eq!(
            (&rows[1].key[..], &rows[1].value.as_ref().unwrap()[17..]),
            (&b"n"[..], &11u64.to_be_bytes()[..])
        );
        let [gone, dropped] = drop_space(&space);
        assert!(gone.key == rows[0].key && gone.value.is_none());
        assert_eq!(dropped.key[..], [&b"d"[..], &10u64.to_be_bytes()].concat());
        assert_eq!(dropped.value.as_ref().unwrap()[17..], [3]);
        assert_eq!(forget_dropped(10).key, dropped.key);

        let catalog = SpaceCatalog::new();
        rows.iter().for_each(|row| load(&catalog, row).unwrap());
        let loaded = catalog.space(id).unwrap();
        assert_eq!((loaded.slot, loaded.tree, catalog.next_slot()), (10, 3, 11));
        catalog.check().unwrap();
        load(&catalog, &dropped).unwrap();
        assert_eq!(catalog.dropped(), [(10, 3)]);
        catalog.check().unwrap_err();
    }

    #[test]
    fn an_extent_has_this_row_until_it_is_removed() {
        let made = ExtentChange::Made { extent: 0x0102, size: 0x0304 };
        let row = change_extent(made);
        assert_eq!(row.key[..], [&b"e"[..], &[0, 0, 0, 0, 0, 0, 1, 2]].concat());
        assert_eq!(row.value.as_ref().unwrap()[17..], [0, 0, 0, 0, 0, 0, 3, 4]);
        let removed = ExtentChange::Removed { extent: 0x0102 };
        assert!(change_extent(removed).key == row.key && change_extent(removed).value.is_none());
        let catalog = SpaceCatalog::new();
        load(&catalog, &row).unwrap();
        catalog.check().unwrap();
        assert_eq!(catalog.extents(), BTreeMap::from([(0x0102, 0x0304)]));
        catalog.apply_extent(removed);
        catalog.apply_extent(ExtentChange::Made { extent: 9, size: 8 });
        assert_eq!(catalog.extents(), BTreeMap::from([(9, 8)]));
    }

    #[test]
    fn a_slot_is_dead_once_its_space_is_dropped_and_not_before_it_is_given() {
        let catalog = SpaceCatalog::new();
        let spaces: Vec<_> = (1..=9).map(|slot| make_space(SpaceId([1; 16]), slot).0).collect();
        spaces.iter().for_each(|space| catalog.insert(space.clone()));
        for slot in [3, 4, 5, 9] {
            catalog.remove(&spaces[slot - 1]);
        }
        let slots = catalog.live_slots();
        let dead: Vec<u64> = (0..20).filter(|slot| slots.is_dead(*slot)).collect();
        assert_eq!(dead, [0, 3, 4, 5, 9]);
        assert_eq!(slots.dead_range(4), Some((3, 6)));
        assert_eq!(slots.dead_range(9), Some((9, 10)));
        assert_eq!(slots.dead_range(0), Some((0, 1)));
        assert_eq!((slots.dead_range(2), slots.dead_range(10), slots.dead_range(99)), (None, None, None));
    }

    #[test]
    fn a_space_made_again_is_not_forgotten_with_the_one_before_it() {
        let catalog = SpaceCatalog::new();
        let (old, new) = (make_space(SpaceId([1; 16]), 1).0, make_space(SpaceId([1; 16]), 2).0);
        catalog.insert(old.clone());
        catalog.insert(new);
        catalog.remove(&old);
        assert_eq!(catalog.space(SpaceId([1; 16])).unwrap().slot, 2);
    }
}
