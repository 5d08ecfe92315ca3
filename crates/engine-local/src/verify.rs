//! A check of every stored byte, with the server stopped. It changes nothing, whatever it finds.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::InternalValue;
use tavola_engine::SpaceId;
use xxhash_rust::xxh3::Xxh3;

use crate::catalog::{META_TREE, SLOT_LEN, Space, slot_of};
use crate::folder::{DataFolder, OpenError};
use crate::inspect::{Inspected, tree_name};
use crate::row::decode_key;
use crate::settings::DATA_TREES;

/// Problems that are listed one by one; more are only counted.
const PROBLEMS_LISTED_MAX: usize = 100;

/// What a check found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Spaces looked at.
    pub spaces: usize,
    /// Good rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How many problems there are.
    pub problem_count: u64,
    /// The first of them.
    pub problems: Vec<VerifyProblem>,
}

/// Something that cannot be trusted.
#[derive(Debug)]
pub struct VerifyProblem {
    /// In which space.
    pub space: SpaceId,
    /// What is wrong.
    pub what: String,
}

impl VerifyReport {
    /// Whether everything can be trusted.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn add_problem(&mut self, space: SpaceId, what: impl ToString) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(VerifyProblem { space, what: what.to_string() });
        }
    }
}

/// Reads every row of a data folder that no server uses.
pub fn verify(data_dir: &Path) -> Result<VerifyReport, OpenError> {
    let folder = DataFolder::open_existing(data_dir)?;
    if folder.is_without_store()? {
        return Ok(VerifyReport::default());
    }
    let inspected = Inspected::read(&folder.store_path()).map_err(|trouble| trouble.of(&folder))?;
    let mut verify = Verify { spaces: inspected.catalog.spaces_by_slot(), report: VerifyReport::default() };
    verify.report.spaces = verify.spaces.len();
    for tree in 0..=DATA_TREES {
        verify.check_files(&inspected, tree).map_err(|cause| folder.failed(cause))?;
        if tree != META_TREE {
            let memtable = inspected.memtable(tree).map_err(|trouble| trouble.of(&folder))?;
            verify.check_rows(tree, inspected.rows(tree, &memtable));
        }
    }
    Ok(verify.report)
}

struct Verify {
    spaces: HashMap<u64, Arc<Space>>,
    report: VerifyReport,
}

impl Verify {
    /// Compares every table file with the checksum that its tree has of it.
    fn check_files(&mut self, inspected: &Inspected, tree: usize) -> io::Result<()> {
        for listed in &inspected.trees[tree].tables {
            if checksum_of(&listed.table.path)? != listed.checksum {
                let file = format!("{}/tables/{}", tree_name(tree), listed.table.id());
                self.report.add_problem(SpaceId::CATALOG, format!("table file {file} is damaged"));
            }
        }
        Ok(())
    }

    fn check_rows(&mut self, tree: usize, rows: impl Iterator<Item = lsm_tree::Result<InternalValue>>) {
        let mut scratch = Vec::new();
        let mut misplaced = HashSet::new();
        for row in rows {
            let row = match row {
                Ok(row) if row.is_tombstone() => continue,
                Ok(row) => row,
                Err(error) => {
                    // The store cannot step over a block that it cannot read.
                    self.report.add_problem(SpaceId::CATALOG, format!("tree {}: {error}", tree_name(tree)));
                    return;
                }
            };
            let key = &row.key.user_key;
            // Rows of dropped spaces are nobody's.
            let Some(space) = slot_of(key).and_then(|slot| self.spaces.get(&slot)).cloned() else { continue };
            let bytes = (key.len() + row.value.len()) as u64;
            let stored_key = &key[SLOT_LEN..];
            if space.tree != tree && misplaced.insert(space.slot) {
                self.report.add_problem(space.id, "rows are in another tree than the catalog says");
            } else if let Err(error) = space.decode(stored_key, row.value.into()) {
                self.report.add_problem(space.id, error);
            } else if decode_key(stored_key, &mut scratch).is_none() {
                self.report.add_problem(space.id, "key is malformed");
            } else {
                self.report.rows += 1;
                self.report.bytes += bytes;
            }
        }
    }
}

fn checksum_of(path: &Path) -> io::Result<u128> {
    const CHUNK: usize = 256 * 1024;
    let mut file = File::open(path)?;
    let mut checksum = Xxh3::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(checksum.digest128()),
            read => checksum.update(&buffer[..read]),
        }
    }
}
