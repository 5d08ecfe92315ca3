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
    /// Held while files are made, named and removed, which takes syncs. Never wanted by a commit that finds a spare.
    files: Mutex<Files>,
    /// Held for moments only: every commit looks at it. Whoever needs both takes `files` first.
    state: Mutex<State>,
}

struct Files {
    manifest: Manifest,
    /// An old journal that is not named any more, whose file can be used again.
    retired: Option<u64>,
}

struct State {
    /// The journals that have been begun, the oldest first. The last is the one that is written to.
    begun: VecDeque<Begun>,
    /// Journals that are named and still empty.
    spares: VecDeque<JournalFile>,
}

#[derive(Clone, Copy)]
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
            files: Mutex::new(Files { manifest, retired: None }),
            state: Mutex::new(State { begun, spares: spares.into() }),
        }
    }

    /// Takes the next journal, whose first record will have this number and this length. For the committer.
    pub(crate) fn begin_next(
        &self,
        first_sequence: u64,
        record_len: usize,
        tick: u64,
    ) -> io::Result<JournalFile> {
        let spare = self.state().spares.pop_front();
        let journal = match spare {
            Some(spare) => spare,
            None => {
                let mut files = self.files();
                // One may have been made meanwhile.
                let spare = self.state().spares.pop_front();
                spare.map_or_else(|| self.make(&mut files, tick), Ok)?
            }
        };
        let journal =
            if journal.fits(record_len) { journal } else { journal.enlarge(&self.store, record_len)? };
        self.state().begun.push_back(Begun { id: journal.id, first_sequence });
        Ok(journal)
    }

    /// Makes the next journal, if there is none in reserve.
    pub(crate) fn make_spare(&self, tick: u64) -> io::Result<()> {
        let mut files = self.files();
        if self.state().spares.is_empty() {
            let journal = self.make(&mut files, tick)?;
            self.state().spares.push_back(journal);
        }
        Ok(())
    }

    /// Removes the journals before this one, all of whose rows are in table files.
    pub(crate) fn remove_before(&self, id: u64, tick: u64) -> io::Result<()> {
        let mut files = self.files();
        // The last one is written to.
        let (removed, first) = {
            let state = self.state();
            let needed = state.begun.iter().position(|begun| begun.id >= id).unwrap_or(state.begun.len());
            let removed = needed.min(state.begun.len().saturating_sub(1));
            let ids: Vec<u64> = state.begun.iter().take(removed).map(|begun| begun.id).collect();
            (ids, state.begun.get(removed).copied())
        };
        let Some(first) = first.filter(|_| !removed.is_empty()) else { return Ok(()) };
        let manifest = Manifest {
            first_journal: first.id,
            first_sequence: first.first_sequence,
            tick: files.manifest.tick.max(tick),
            ..files.manifest
        };
        manifest.write(&self.store)?;
        files.manifest = manifest;
        self.state().begun.drain(..removed.len());
        for id in removed {
            if let Some(retired) = files.retired.replace(id) {
                fs::remove_file(self.store.join(file_name(retired)))?;
            }
        }
        Ok(())
    }

    /// The journal that is written to.
    pub(crate) fn current_id(&self) -> u64 {
        self.state().begun.back().map_or(u64::MAX, |begun| begun.id)
    }

    /// How many journals have been begun, and the oldest of them.
    pub(crate) fn count_and_oldest(&self) -> (usize, u64) {
        let state = self.state();
        (state.begun.len(), state.begun.front().map_or(u64::MAX, |begun| begun.id))
    }

    fn make(&self, files: &mut Files, tick: u64) -> io::Result<JournalFile> {
        let id = files.manifest.last_journal + 1;
        let recycled = match files.retired.take() {
            Some(retired) => JournalFile::recycle(&self.store, retired, id, JOURNAL_BYTES)?,
            None => None,
        };
        let journal = match recycled {
            Some(journal) => journal,
            None => JournalFile::create(&self.store, id, JOURNAL_BYTES)?,
        };
        sync_folder(&self.store)?;
        let manifest = Manifest { last_journal: id, tick: files.manifest.tick.max(tick), ..files.manifest };
        manifest.write(&self.store)?;
        files.manifest = manifest;
        Ok(journal)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_goes_on_with_a_spare_while_files_are_made_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let manifest =
            Manifest { data_trees: 4, first_journal: 1, last_journal: 1, first_sequence: 1, tick: 0 };
        let journals = Journals::new(folder.path(), manifest, vec![(1, 1)], Vec::new());
        journals.make_spare(0).unwrap();
        let files = journals.files();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let next = journals.begin_next(5, 100, 0).unwrap();
                sender.send((next.id, journals.current_id(), journals.count_and_oldest())).unwrap();
            });
            // Long enough for the slowest machine; a commit that waited would wait for ever.
            let seen = receiver.recv_timeout(std::time::Duration::from_secs(60));
            drop(files);
            assert_eq!(seen, Ok((2, 2, (2, 1))));
        });
    }
}
