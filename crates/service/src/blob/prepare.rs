//! Rows that are too many for one transaction, written before the record that names them.
//!
//! They are rows of a fresh generation, so nobody sees them before one transaction names the generation in the record.
//! What is not named is dead (`tidy.rs`), so a note says while they are written that the generation is not, and when the
//! last of them were. The transaction that names the generation removes the note, and fails if the note is gone. What is
//! given up is removed at once; a crash leaves it to the scrubber, which removes notes that are a day old. It also drops
//! contents of that age that no row names, so what takes long is written every hour, however little it is.
//!
//! ```text
//! a note: u8 version = 1 | time of the last rows
//! ```
//!
//! Few rows are not written in advance: they go with the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use tavola_engine::{Change, StoredRow};
use tavola_model::DateTime;

use super::Blobs;
use super::change::BlobLocation;
use super::put::settle;
use super::receive::Unnamed;
use super::rows::note_row;
use crate::catalog::to_its_end;
use crate::codec::{Reader, put_time};
use crate::failure::Failure;

const VERSION: u8 = 1;
/// Rows of one transaction.
pub(crate) const STEP_ROWS_MAX: usize = 512;
/// Bytes of one transaction: the committer serves others between two of them.
pub(crate) const STEP_BYTES_MAX: usize = 1024 * 1024;
/// Time after which rows are written, however few they are.
const STEP_SECONDS_MAX: u64 = 60 * 60;

/// Rows of a generation that no record names yet.
pub(crate) struct Preparation {
    blobs: Arc<Blobs>,
    location: BlobLocation,
    pub generation: u64,
    rows: BTreeMap<Vec<u8>, Bytes>,
    bytes: usize,
    unnamed: Vec<Unnamed>,
    /// When the last rows were written, or when this began.
    written: DateTime,
    note: Option<Box<Note>>,
}

/// The rows that a record needs beside it: those that are still to be written, and the note on those that are.
#[derive(Default)]
pub(crate) struct Further {
    pub rows: Vec<(Vec<u8>, Bytes)>,
    note: Option<Box<Note>>,
}

/// A note that is there, or may be. With it goes what it speaks of, unless a record names that.
struct Note {
    blobs: Arc<Blobs>,
    location: BlobLocation,
    row: Vec<u8>,
    is_settled: bool,
}

impl Preparation {
    pub fn new(blobs: &Arc<Blobs>, location: &BlobLocation) -> Self {
        Self {
            blobs: blobs.clone(),
            location: location.clone(),
            generation: blobs.fresh_generation(),
            rows: BTreeMap::new(),
            bytes: 0,
            unnamed: Vec::new(),
            written: blobs.clock.now(),
            note: None,
        }
    }

    /// Whether what is not written yet has waited long: whoever adds rows slowly adds what there is now.
    pub fn is_due(&self) -> bool {
        self.blobs.clock.now().seconds_between(self.written) >= STEP_SECONDS_MAX
    }

    /// Adds a row of the generation, and what it names. A row that was added before is replaced.
    pub async fn add(
        &mut self,
        row: Vec<u8>,
        body: Bytes,
        unnamed: impl IntoIterator<Item = Unnamed>,
    ) -> Result<(), Failure> {
        self.bytes += row.len() + body.len();
        self.rows.insert(row, body);
        self.unnamed.extend(unnamed);
        if self.rows.len() >= STEP_ROWS_MAX || self.bytes >= STEP_BYTES_MAX || self.is_due() {
            self.write().await?;
        }
        Ok(())
    }

    /// Goes on if its caller does not: what rows name stays, and the note goes after they are written.
    async fn write(&mut self) -> Result<(), Failure> {
        let (rows, unnamed) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.unnamed));
        (self.bytes, self.written) = (0, self.blobs.clock.now());
        let is_first = self.note.is_none();
        let note = self.note.take().unwrap_or_else(|| {
            Box::new(Note {
                blobs: self.blobs.clone(),
                location: self.location.clone(),
                row: note_row(self.generation),
                is_settled: false,
            })
        });
        let written = to_its_end(async move {
            let done = note.write(&rows, is_first).await;
            settle(unnamed, &done);
            done.map(|()| note)
        });
        self.note = Some(written.await?);
        Ok(())
    }

    /// What is left to write with the record, and what no row names yet.
    pub fn finish(mut self) -> (Further, Vec<Unnamed>) {
        let further = Further { rows: self.rows.into_iter().collect(), note: self.note.take() };
        (further, self.unnamed)
    }
}

impl Further {
    /// The names of all rows that the transaction must ask for.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.rows
            .iter()
            .map(|(row, _)| row.as_slice())
            .chain(self.note.as_ref().map(|note| note.row.as_slice()))
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.rows.len() + usize::from(self.note.is_some())
    }

    /// What the transaction does to them, where the first of them has this index.
    pub fn changes(&self, index: usize, found: &[Option<StoredRow>]) -> Result<Vec<Change>, Failure> {
        let bodies = self.rows.iter().enumerate();
        let mut changes: Vec<Change> =
            bodies.map(|(at, (_, body))| Change::Put { index: index + at, body: body.clone() }).collect();
        if self.note.is_some() {
            let note = index + self.rows.len();
            if found.get(note).is_none_or(Option::is_none) {
                return Err(Failure::changed_meanwhile());
            }
            changes.push(Change::Delete { index: note });
        }
        Ok(changes)
    }

    /// Leaves the rows to the record that names them now, or may.
    pub fn settle<T>(mut self, done: &Result<T, Failure>) {
        let may_be_named = done.is_ok() || done.as_ref().is_err_and(Failure::is_unknown);
        if let Some(note) = self.note.as_mut().filter(|_| may_be_named) {
            note.is_settled = true;
        }
    }
}

impl From<Vec<(Vec<u8>, Bytes)>> for Further {
    fn from(rows: Vec<(Vec<u8>, Bytes)>) -> Self {
        Self { rows, note: None }
    }
}

impl Note {
    /// Writes rows that it speaks of, and the note itself. It must be there, unless these are the first ones.
    async fn write(&self, rows: &BTreeMap<Vec<u8>, Bytes>, is_first: bool) -> Result<(), Failure> {
        let mut names: Vec<&[u8]> = vec![&self.row];
        names.extend(rows.keys().map(Vec::as_slice));
        let decide = |now: DateTime, found: &[Option<StoredRow>]| {
            if !is_first && found[0].is_none() {
                return Err(Failure::changed_meanwhile());
            }
            let mut changes = vec![Change::Put { index: 0, body: encode_note(now).into() }];
            let bodies = rows.values().enumerate();
            changes.extend(bodies.map(|(at, body)| Change::Put { index: 1 + at, body: body.clone() }));
            Ok((changes, ()))
        };
        self.blobs.transact(&self.location, &names, decide).await
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let (blobs, location, row) =
            (self.blobs.clone(), self.location.clone(), std::mem::take(&mut self.row));
        // Without a runtime the process is ending; the scrubber finds the note.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let done = async {
                blobs.remove_rows(&location, &[&row]).await?;
                blobs.tidy(&location, &[]).await
            };
            if let Err(error) = done.await {
                tracing::debug!(%error, "rows that were written in advance are left to the scrubber");
            }
        });
    }
}

fn encode_note(now: DateTime) -> Vec<u8> {
    let mut out = vec![VERSION];
    put_time(&mut out, now);
    out
}

/// When the last rows of a generation were written in advance.
pub(crate) fn decode_note(bytes: &[u8]) -> Option<DateTime> {
    let mut reader = Reader::of_version(bytes, VERSION)?;
    let time = reader.time()?;
    reader.is_done().then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_its_layout() {
        let time = DateTime::from_ticks(638_000_000_000_000_001).unwrap();
        let bytes = encode_note(time);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "010100b3a69ea1da08");
        assert_eq!(decode_note(&bytes), Some(time));
        for length in 0..bytes.len() {
            assert_eq!(decode_note(&bytes[..length]), None, "{length}");
        }
    }
}
