//! The manifest of a store: what there must be.
//!
//! It names the trees and the journals, first to last. A tree's own files name its table files. The manifest is replaced as
//! a whole, by a rename, and always after the files that it newly names are durable and before files that it no longer
//! names are removed. So a file that it names and that is not there was lost.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use crate::folder::{create_file, sync_folder};

const MANIFEST: &str = "manifest";
const MANIFEST_NEW: &str = "manifest.new";
const MAGIC: [u8; 8] = *b"TAVSTOR\x01";
const NUMBERS: usize = 5;
const LEN: usize = 8 + NUMBERS * 8 + 8;

/// What a store must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Trees for rows, beside the one for the catalog.
    pub(crate) data_trees: u64,
    /// The oldest journal that is needed.
    pub(crate) first_journal: u64,
    /// The newest journal.
    pub(crate) last_journal: u64,
    /// The number of the first record of the oldest journal.
    pub(crate) first_sequence: u64,
    /// At least every tick that was committed before the oldest journal.
    pub(crate) tick: u64,
}

impl Manifest {
    /// Replaces the manifest of a store, durably.
    pub(crate) fn write(&self, store: &Path) -> io::Result<()> {
        let new_path = store.join(MANIFEST_NEW);
        let mut file = create_file(&new_path)?;
        file.write_all(&self.encode())?;
        file.sync_all()?;
        fs::rename(new_path, store.join(MANIFEST))?;
        sync_folder(store)
    }

    /// Reads the manifest of a store. The inner error tells what is damaged.
    pub(crate) fn read(store: &Path) -> io::Result<Result<Self, String>> {
        match fs::read(store.join(MANIFEST)) {
            Ok(bytes) => Ok(Self::decode(&bytes).ok_or_else(|| "the manifest is damaged".to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(Err("the manifest is missing".to_owned()))
            }
            Err(error) => Err(error),
        }
    }

    fn encode(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        let numbers =
            [self.data_trees, self.first_journal, self.last_journal, self.first_sequence, self.tick];
        for (index, number) in numbers.iter().enumerate() {
            bytes[8 + index * 8..16 + index * 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = xxh3_64(&bytes[..LEN - 8]);
        bytes[LEN - 8..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = |index: usize| -> Option<u64> {
            bytes.get(8 + index * 8..16 + index * 8)?.try_into().ok().map(u64::from_le_bytes)
        };
        let manifest = Self {
            data_trees: number(0)?,
            first_journal: number(1)?,
            last_journal: number(2)?,
            first_sequence: number(3)?,
            tick: number(4)?,
        };
        let is_plausible = manifest.first_journal <= manifest.last_journal && manifest.first_sequence > 0;
        (bytes == manifest.encode() && is_plausible).then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Manifest =
        Manifest { data_trees: 4, first_journal: 2, last_journal: 5, first_sequence: 77, tick: 0x1234 };

    #[test]
    fn the_bytes_of_a_manifest_are_these() {
        let expected = [
            &b"TAVSTOR\x01"[..],
            &4u64.to_le_bytes(),
            &2u64.to_le_bytes(),
            &5u64.to_le_bytes(),
            &77u64.to_le_bytes(),
            &0x1234u64.to_le_bytes(),
            &[117, 94, 155, 60, 32, 197, 90, 202],
        ];
        assert_eq!(SOME.encode()[..], expected.concat());
    }

    #[test]
    fn a_written_manifest_is_read_and_a_changed_one_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Manifest::read(folder.path()).unwrap().unwrap_err().contains("missing"));
        SOME.write(folder.path()).unwrap();
        assert_eq!(Manifest::read(folder.path()).unwrap(), Ok(SOME));
        let path = folder.path().join(MANIFEST);
        let bytes = fs::read(&path).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, flipped).unwrap();
            assert!(Manifest::read(folder.path()).unwrap().is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            assert!(Manifest::read(folder.path()).unwrap().is_err(), "length {length}");
        }
    }
}
