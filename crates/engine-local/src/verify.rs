//! A check of every stored byte, with the server stopped. It changes nothing, whatever it finds.
//!
//! Contents of blobs are checked in both directions: from the index to every piece on the disk, and, given somebody who
//! knows which contents a row names ([`NamedContents`]), from rows to the index. Contents that no row names are counted
//! and are no problem: a crash between a put and its row leaves one.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use lsm_tree::InternalValue;
use tavola_engine::{Content, NamedContents, ScannedRow, SpaceId};
use xxhash_rust::xxh3::Xxh3;

use crate::catalog::{META_TREE, SLOT_LEN, Space, slot_of};
use crate::content::{ContentCheck, INDEX_SPACE};
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
    /// Contents of blobs that the index names, and their bytes.
    pub contents: u64,
    /// Bytes of these.
    pub content_bytes: u64,
    /// Contents that rows name, if somebody could tell; each counts once for each row.
    pub contents_named: u64,
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

/// Rows of which nobody knows whether they name contents.
struct Unknown;

impl NamedContents for Unknown {
    fn learn(&mut self, _: &ScannedRow<'_>) {}

    fn visit(&self, _: SpaceId, _: &ScannedRow<'_>, _: &mut dyn FnMut(&Content)) {}
}

/// Reads every row and every content of a data folder that no server uses.
pub fn verify(data_dir: &Path) -> Result<VerifyReport, OpenError> {
    verify_naming(data_dir, &mut Unknown)
}

/// The same, and looks for every content that a row names.
pub fn verify_naming(data_dir: &Path, named: &mut dyn NamedContents) -> Result<VerifyReport, OpenError> {
    let folder = DataFolder::open_existing(data_dir)?;
    if folder.is_without_store()? {
        return Ok(VerifyReport::default());
    }
    let inspected = Inspected::read(&folder.store_path()).map_err(|trouble| trouble.of(&folder))?;
    let mut verify = Verify {
        spaces: inspected.catalog.spaces_by_slot(),
        contents: ContentCheck::new(&folder.store_path(), inspected.catalog.extents()),
        report: VerifyReport::default(),
    };
    let is_seen = |space: &&Arc<Space>| space.id != INDEX_SPACE;
    verify.report.spaces = verify.spaces.values().filter(is_seen).count();
    for tree in 0..=DATA_TREES {
        verify.check_files(&inspected, tree).map_err(|cause| folder.failed(cause))?;
    }
    // First who names contents, then the contents, then who is named.
    for pass in [Pass::Catalog, Pass::Index, Pass::Others] {
        for tree in 0..=DATA_TREES {
            if verify.has_rows(pass, tree) {
                let memtable = inspected.memtable(tree).map_err(|trouble| trouble.of(&folder))?;
                let rows = inspected.rows(tree, &memtable);
                verify.check_rows(pass, tree, rows, named).map_err(|cause| folder.failed(cause))?;
            }
        }
    }
    verify.report.contents = verify.contents.count();
    verify.report.content_bytes = verify.contents.bytes;
    Ok(verify.report)
}

struct Verify {
    spaces: HashMap<u64, Arc<Space>>,
    contents: ContentCheck,
    report: VerifyReport,
}

/// Which rows are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Catalog,
    Index,
    Others,
}

impl Pass {
    fn of(space: SpaceId) -> Self {
        match space {
            SpaceId::CATALOG => Self::Catalog,
            INDEX_SPACE => Self::Index,
            _ => Self::Others,
        }
    }
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

    /// Whether a tree may have rows of a pass. A tree of rows is always looked at once, also if it has no space.
    fn has_rows(&self, pass: Pass, tree: usize) -> bool {
        let has_space = self.spaces.values().any(|space| space.tree == tree && Pass::of(space.id) == pass);
        tree != META_TREE && (pass == Pass::Others || has_space)
    }

    fn check_rows(
        &mut self,
        pass: Pass,
        tree: usize,
        rows: impl Iterator<Item = lsm_tree::Result<InternalValue>>,
        named: &mut dyn NamedContents,
    ) -> io::Result<()> {
        let mut scratch = Vec::new();
        let mut misplaced = HashSet::new();
        for row in rows {
            let row = match row {
                Ok(row) if row.is_tombstone() => continue,
                Ok(row) => row,
                Err(error) => {
                    // The store cannot step over a block that it cannot read. Told once.
                    if pass == Pass::Others {
                        self.report
                            .add_problem(SpaceId::CATALOG, format!("tree {}: {error}", tree_name(tree)));
                    }
                    return Ok(());
                }
            };
            let key = &row.key.user_key;
            // Rows of dropped spaces are nobody's.
            let Some(space) = slot_of(key).and_then(|slot| self.spaces.get(&slot)).cloned() else { continue };
            if Pass::of(space.id) != pass {
                continue;
            }
            let bytes = (key.len() + row.value.len()) as u64;
            let stored_key = &key[SLOT_LEN..];
            if space.tree != tree && misplaced.insert(space.slot) {
                self.report.add_problem(space.id, "rows are in another tree than the catalog says");
                continue;
            }
            let stored = match space.decode(stored_key, row.value.into()) {
                Ok(stored) => stored,
                Err(error) => {
                    self.report.add_problem(space.id, error);
                    continue;
                }
            };
            let Some((partition, row)) = decode_key(stored_key, &mut scratch) else {
                self.report.add_problem(space.id, "key is malformed");
                continue;
            };
            let scanned = ScannedRow { partition, row, version: stored.version, body: stored.body };
            self.check_contents(pass, space.id, &scanned, named)?;
            if pass != Pass::Index {
                self.report.rows += 1;
                self.report.bytes += bytes;
            }
        }
        Ok(())
    }

    fn check_contents(
        &mut self,
        pass: Pass,
        space: SpaceId,
        row: &ScannedRow<'_>,
        named: &mut dyn NamedContents,
    ) -> io::Result<()> {
        match pass {
            Pass::Catalog => named.learn(row),
            Pass::Index => {
                if let Err((space, what)) = self.contents.check(row.partition, row.row, &row.body)? {
                    self.report.add_problem(space, what);
                }
            }
            Pass::Others => named.visit(space, row, &mut |content| {
                self.report.contents_named += 1;
                if let Err(what) = self.contents.has(space, content) {
                    self.report.add_problem(space, what);
                }
            }),
        }
        Ok(())
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
