//! Understanding a store before anything in it is changed.
//!
//! A start and a check both begin here, and only read. Everything that the manifest names must be there and be what it
//! should be: each tree's list of table files, by its checksum; each table file, as far as its own index; each journal,
//! record by record; the catalog, row by row; and each extent with contents of blobs, as far as
//! its header. Whatever is not is damage, and the store is left as it is. Only when
//! everything is checked may a start remove what a crash left over.
//!
//! The layout of a tree's `current` and version file is lsm-tree's, which does not check them itself.

use std::fs;
use std::io::{self, Cursor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::merge::{BoxedIterator, Merger};
use lsm_tree::{Cache, Checksum, DescriptorTable, InternalValue, Memtable, SeqNo, Slice, Table, ValueType};
use xxhash_rust::xxh3::xxh3_128;

use crate::catalog::{META_TREE, SpaceCatalog, is_damage};
use crate::content;
use crate::folder::{DataFolder, OpenError};
use crate::journal::{Examined, changes, file_name};
use crate::manifest::Manifest;
use crate::settings::DATA_TREES;
use crate::tree::NewestRows;

const CURRENT_LEN: usize = 25;
/// Rows of journals are newer than all that are in table files.
const JOURNAL_SEQUENCE: SeqNo = 1 << 62;
const CACHE_BYTES: u64 = 1 << 20;
const OPEN_FILES: usize = 16;

/// A store that was inspected.
pub(crate) struct Inspected {
    pub(crate) manifest: Manifest,
    pub(crate) trees: Vec<InspectedTree>,
    /// All that the manifest names, the oldest first.
    pub(crate) journals: Vec<Examined>,
    pub(crate) catalog: SpaceCatalog,
    /// The highest tick that was ever committed.
    pub(crate) tick: u64,
}

/// A tree whose files are there.
pub(crate) struct InspectedTree {
    pub(crate) tables: Vec<InspectedTable>,
}

/// A table file that a tree names.
pub(crate) struct InspectedTable {
    pub(crate) table: Table,
    /// XXH3-128 of the whole file.
    pub(crate) checksum: u128,
}

/// Why a store cannot be inspected.
#[derive(Debug)]
pub(crate) enum InspectError {
    Damaged(String),
    Failed(io::Error),
}

impl From<io::Error> for InspectError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl InspectError {
    /// As an error of a data folder.
    pub(crate) fn of(self, folder: &DataFolder) -> OpenError {
        match self {
            Self::Damaged(what) => folder.damaged(what),
            Self::Failed(cause) => folder.failed(cause),
        }
    }

    fn of_tree(error: lsm_tree::Error, what: impl FnOnce() -> String) -> Self {
        match error {
            lsm_tree::Error::Io(cause) if !is_damage(&lsm_tree::Error::Io(io::Error::from(cause.kind()))) => {
                Self::Failed(cause)
            }
            error => Self::Damaged(format!("{}: {error}", what())),
        }
    }
}

/// The folder name of a tree.
pub(crate) fn tree_name(tree: usize) -> String {
    match tree {
        META_TREE => "meta".to_owned(),
        tree => format!("rows-{tree}"),
    }
}

impl Inspected {
    /// Inspects the store in this folder.
    pub(crate) fn read(store: &Path) -> Result<Self, InspectError> {
        let manifest = Manifest::read(store)?.map_err(InspectError::Damaged)?;
        if manifest.data_trees != DATA_TREES as u64 {
            return Err(InspectError::Damaged(format!("the manifest names {} trees", manifest.data_trees)));
        }
        let mut trees = Vec::new();
        for tree in 0..=DATA_TREES {
            trees.push(InspectedTree::read(store, tree)?);
        }
        let journals = read_journals(store, &manifest)?;
        let memtable = memtable(&journals, META_TREE)?;
        let catalog = read_catalog(&trees[META_TREE], &memtable)?;
        check_extents(store, &catalog)?;
        let tick = journals.iter().map(|journal| journal.tick).fold(manifest.tick, u64::max);
        Ok(Self { manifest, trees, journals, catalog, tick })
    }

    /// The rows of a tree as of now, in order; deleted ones as tombstones.
    pub(crate) fn rows<'a>(
        &'a self,
        tree: usize,
        memtable: &'a Memtable,
    ) -> impl Iterator<Item = lsm_tree::Result<InternalValue>> + 'a {
        self.trees[tree].rows(memtable)
    }

    /// The rows of a tree that are in journals.
    pub(crate) fn memtable(&self, tree: usize) -> Result<Memtable, InspectError> {
        memtable(&self.journals, tree)
    }

    /// Removes files that nothing names: what a crash left of writes that were under way.
    pub(crate) fn remove_leftovers(&self, store: &Path) -> io::Result<()> {
        let named: Vec<String> = self.journals.iter().map(|journal| file_name(journal.id)).collect();
        for entry in fs::read_dir(store)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if (name.ends_with(".journal") && !named.contains(&name)) || name.ends_with(".new") {
                fs::remove_file(store.join(name))?;
            }
        }
        // Table files and version files are removed by the tree when it is opened.
        for tree in 0..=DATA_TREES {
            let path = store.join(tree_name(tree));
            for entry in fs::read_dir(&path)? {
                let name = entry?.file_name();
                if name.to_string_lossy().starts_with(".tmp") {
                    fs::remove_file(path.join(name))?;
                }
            }
        }
        Ok(())
    }
}

impl InspectedTree {
    fn read(store: &Path, tree: usize) -> Result<Self, InspectError> {
        let name = tree_name(tree);
        let path = store.join(&name);
        let damaged = |what: &str| InspectError::Damaged(format!("tree {name}: {what}"));
        let current =
            read_file(&path.join("current"))?.ok_or_else(|| damaged("the file current is missing"))?;
        if current.len() != CURRENT_LEN || current[24] != 0 {
            return Err(damaged("the file current is damaged"));
        }
        let id = read_u64(&current[..8]);
        let checksum = u128::from_le_bytes(current[8..24].try_into().expect("sixteen bytes"));
        let version =
            read_file(&path.join(format!("v{id}")))?.ok_or_else(|| damaged("its version file is missing"))?;
        if xxh3_128(&version) != checksum {
            return Err(damaged("its version file is damaged"));
        }
        let listed = list_tables(&version).ok_or_else(|| damaged("its version file is malformed"))?;
        let cache = Arc::new(Cache::with_capacity_bytes(CACHE_BYTES));
        let open_files = Arc::new(DescriptorTable::new(OPEN_FILES));
        let mut tables = Vec::new();
        for ListedTable { id, checksum, global_seqno } in listed {
            let table_path = path.join("tables").join(id.to_string());
            let table = open_table(table_path, checksum, global_seqno, tree, &cache, &open_files)
                .map_err(|error| InspectError::of_tree(error, || format!("tree {name}: table file {id}")))?;
            if table.id() != id {
                return Err(damaged("a table file has another one's name"));
            }
            tables.push(InspectedTable { table, checksum });
        }
        Ok(Self { tables })
    }

    fn rows<'a>(
        &'a self,
        memtable: &'a Memtable,
    ) -> impl Iterator<Item = lsm_tree::Result<InternalValue>> + 'a {
        let in_files = self.tables.iter().map(|table| Box::new(table.table.iter()) as BoxedIterator<'_>);
        let in_journals = Box::new(memtable.iter().map(Ok)) as BoxedIterator<'_>;
        NewestRows::new(Merger::new(in_files.chain([in_journals]).collect()), SeqNo::MAX, None)
    }
}

/// Opens a table file. The tree's own code panics on some kinds of damage.
fn open_table(
    path: PathBuf,
    checksum: u128,
    global_seqno: SeqNo,
    tree: usize,
    cache: &Arc<Cache>,
    open_files: &Arc<DescriptorTable>,
) -> lsm_tree::Result<Table> {
    let open = || {
        let checksum = Checksum::from_raw(checksum);
        let (cache, open_files) = (cache.clone(), Some(open_files.clone()));
        Table::recover(
            path,
            checksum,
            global_seqno,
            tree as u64,
            cache,
            open_files,
            false,
            false,
            Arc::default(),
        )
    };
    catch_unwind(AssertUnwindSafe(open)).unwrap_or(Err(lsm_tree::Error::Unrecoverable))
}

struct ListedTable {
    id: u64,
    checksum: u128,
    global_seqno: SeqNo,
}

/// The table files in a version file: levels, each of runs, each of tables.
fn list_tables(version: &[u8]) -> Option<Vec<ListedTable>> {
    let archive = sfa::Reader::from_reader(&mut Cursor::new(version)).ok()?;
    let section = archive.toc().section(b"tables")?;
    let start = usize::try_from(section.pos()).ok()?;
    let mut rest = version.get(start..start.checked_add(usize::try_from(section.len()).ok()?)?)?;
    let mut take = |len: usize| -> Option<&[u8]> {
        let (taken, left) = rest.split_at_checked(len)?;
        rest = left;
        Some(taken)
    };
    let mut tables = Vec::new();
    for _ in 0..take(1)?[0] {
        for _ in 0..take(1)?[0] {
            let count = take(4)?;
            for _ in 0..u32::from_le_bytes(count.try_into().ok()?) {
                let id = read_u64(take(8)?);
                let is_xxh3 = take(1)?[0] == 0;
                let checksum = u128::from_le_bytes(take(16)?.try_into().ok()?);
                let global_seqno = read_u64(take(8)?);
                tables.push(is_xxh3.then_some(ListedTable { id, checksum, global_seqno })?);
            }
        }
    }
    Some(tables)
}

fn read_journals(store: &Path, manifest: &Manifest) -> Result<Vec<Examined>, InspectError> {
    let mut journals: Vec<Examined> = Vec::new();
    let mut sequence = manifest.first_sequence;
    for id in manifest.first_journal..=manifest.last_journal {
        let examined = Examined::read(store, id, sequence)?.map_err(InspectError::Damaged)?;
        if examined.records > 0
            && let Some(unfinished) = journals.iter().find(|journal| !journal.is_marked)
        {
            // A journal is finished, with a synced mark, before the next one is begun.
            return Err(InspectError::Damaged(format!("the end of journal {} is damaged", unfinished.id)));
        }
        sequence = examined.next_sequence;
        journals.push(examined);
    }
    Ok(journals)
}

/// The rows of a tree that are in journals, in the order of their commits.
fn memtable(journals: &[Examined], tree: usize) -> Result<Memtable, InspectError> {
    let memtable = Memtable::new(0);
    let mut sequence = JOURNAL_SEQUENCE;
    for journal in journals {
        journal.visit(|payload| {
            sequence += 1;
            for change in changes(payload) {
                let change = change.filter(|change| change.tree <= DATA_TREES).ok_or_else(|| {
                    InspectError::Damaged(format!("a record of journal {} is malformed", journal.id))
                })?;
                if change.tree == tree {
                    let value_type = change.value.map_or(ValueType::Tombstone, |_| ValueType::Value);
                    let (key, value) =
                        (Slice::from(change.key), Slice::from(change.value.unwrap_or_default()));
                    memtable.insert(InternalValue::from_components(key, value, sequence, value_type));
                }
            }
            Ok::<(), InspectError>(())
        })?;
    }
    Ok(memtable)
}

fn read_catalog(meta: &InspectedTree, memtable: &Memtable) -> Result<SpaceCatalog, InspectError> {
    let catalog = SpaceCatalog::new();
    for row in meta.rows(memtable) {
        let row =
            row.map_err(|error| InspectError::of_tree(error, || "the catalog cannot be read".to_owned()))?;
        if !row.is_tombstone() {
            let loaded = catalog.load(&row.key.user_key, row.value.into());
            loaded.map_err(|what| InspectError::Damaged(format!("the catalog: {what}")))?;
        }
    }
    catalog.check().map_err(|what| InspectError::Damaged(what.to_owned()))?;
    Ok(catalog)
}

/// Every extent that the catalog names is there, has its size and its header. What is in it is checked by those who read it.
fn check_extents(store: &Path, catalog: &SpaceCatalog) -> Result<(), InspectError> {
    let folder = content::folder_in(store);
    for (extent, size) in catalog.extents() {
        content::inspect(&folder, extent, size)?.map_err(InspectError::Damaged)?;
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Option<Vec<u8>>, InspectError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(InspectError::Failed(error)),
    }
}

fn read_u64(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| (value << 8) | u64::from(*byte))
}
