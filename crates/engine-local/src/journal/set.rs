//! All journals of a store, and the manifest that names them.
//!
//! The next journal is made before it is needed, by the flush thread, so that a commit does not wait for it. A journal is
//! no longer needed when the rows of all its records are in table files; the oldest goes first. Its file becomes the next
//! journal, if one is wanted.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::file::{JournalFile, file_name};
use crate::folder::sync_folder;
use crate::manifest::Manifest;
use crate::settings::JOURNAL_BYTES;

/// The journals of a store.
pub(crate) struct Journals {
    store: PathBuf,
    state: Mutex<State>,
}

struct State {
    manifest: Manifest,
    /// The journals that have been begun, the oldest first. The last is the one that is written to.
    begun: VecDeque<Begun>,
    /// Journals that are named and still empty.
    spares: VecDeque<JournalFile>,
    /// An old journal that is not named any more, whose file can be used again.
    retired: Option<u64>,
}

struct Begun {
    id: u64,
    first_sequence: u64,
}

impl Journals {
    /// The journals of a store that was inspected: those that were begun, by id and first record, and those that were not.
    pub(crate) fn new(
        store: &Path,
        manifest: Manifest,
        begun: Vec<(u64, u64)>,
        spares: Vec<JournalFile>,
    ) -> Self {
        let begun = begun.into_iter().map(|(id, first_sequence)| Begun { id, first_sequence }).collect();
        Self {
            store: store.to_owned(),
            state: Mutex::new(State { manifest, begun, spares: spares.into(), retired: None }),
        }
    }

    /// Takes the next journal, whose first record will have this number and this length.
    pub(crate) fn begin_next(
        &self,
        first_sequence: u64,
        record_len: usize,
        tick: u64,
    ) -> io::Result<JournalFile> {
        let mut state = self.lock();
        let journal = match state.spares.pop_front() {
            Some(spare) => spare,
            None => self.make(&mut state, tick)?,
        };
        let journal =
            if journal.has_room(record_len) { journal } else { journal.enlarge(&self.store, record_len)? };
        state.begun.push_back(Begun { id: journal.id, first_sequence });
        Ok(journal)
    }

    /// Makes the next journal, if there is none in reserve.
    pub(crate) fn make_spare(&self, tick: u64) -> io::Result<()> {
        let mut state = self.lock();
        if state.spares.is_empty() {
            let journal = self.make(&mut state, tick)?;
            state.spares.push_back(journal);
        }
        Ok(())
    }

    /// Removes the journals before this one, all of whose rows are in table files.
    pub(crate) fn remove_before(&self, id: u64, tick: u64) -> io::Result<()> {
        let mut state = self.lock();
        let removed: Vec<u64> =
            state.begun.iter().map(|begun| begun.id).take_while(|begun| *begun < id).collect();
        // The last one is written to.
        let removed = &removed[..removed.len().min(state.begun.len().saturating_sub(1))];
        if removed.is_empty() {
            return Ok(());
        }
        let first = &state.begun[removed.len()];
        let manifest = Manifest {
            first_journal: first.id,
            first_sequence: first.first_sequence,
            tick: state.manifest.tick.max(tick),
            ..state.manifest
        };
        manifest.write(&self.store)?;
        state.manifest = manifest;
        state.begun.drain(..removed.len());
        for id in removed {
            if let Some(retired) = state.retired.replace(*id) {
                fs::remove_file(self.store.join(file_name(retired)))?;
            }
        }
        Ok(())
    }

    /// The journal that is written to.
    pub(crate) fn current_id(&self) -> u64 {
        self.lock().begun.back().map_or(u64::MAX, |begun| begun.id)
    }

    /// How many journals have been begun, and the oldest of them.
    pub(crate) fn count_and_oldest(&self) -> (usize, u64) {
        let state = self.lock();
        (state.begun.len(), state.begun.front().map_or(u64::MAX, |begun| begun.id))
    }

    fn make(&self, state: &mut State, tick: u64) -> io::Result<JournalFile> {
        let id = state.manifest.last_journal + 1;
        let recycled = match state.retired.take() {
            Some(retired) => JournalFile::recycle(&self.store, retired, id, JOURNAL_BYTES)?,
            None => None,
        };
        let journal = match recycled {
            Some(journal) => journal,
            None => JournalFile::create(&self.store, id, JOURNAL_BYTES)?,
        };
        sync_folder(&self.store)?;
        let manifest = Manifest { last_journal: id, tick: state.manifest.tick.max(tick), ..state.manifest };
        manifest.write(&self.store)?;
        state.manifest = manifest;
        Ok(journal)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
