//! The journal: every commit, synced before it is acknowledged, kept until its rows are in table files.
//!
//! `record` has the bytes of a commit and tells a torn one from a damaged one; `file` is one journal file; `set` is all
//! of them together with the manifest that names them; `changes` is what a commit changes.

mod changes;
mod file;
mod record;
mod set;

pub(crate) use changes::{ChangedRow, Payload, changes};
pub(crate) use file::{Examined, JournalFile, JournalWriter, file_name};
pub(crate) use set::Journals;
