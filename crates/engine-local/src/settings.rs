//! What an operator can choose, and the bounds that follow.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of the embedded engine.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The data folder. It is made if it does not exist.
    pub data_dir: PathBuf,
    /// Memory for rows, of all spaces together: half of it for blocks read from disk, half for rows that are in no table
    /// file yet. Commits wait while those fill their half, which one commit may go beyond.
    pub memory_bytes: u64,
    /// Memory that the newest rows of one tree fill before they are flushed to a table file, or a sixteenth of the half for
    /// unflushed rows if that is less.
    pub memtable_bytes: u64,
    /// Free disk space below which writes that need more of it are refused.
    pub disk_reserve_bytes: u64,
    /// Threads that compact table files.
    pub compaction_threads: usize,
}

impl LocalSettings {
    /// The defaults. Commits wait while a memtable is flushed and synced, so small ones shorten the longest waits.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            memory_bytes: 128 * MIB,
            memtable_bytes: 4 * MIB,
            disk_reserve_bytes: 256 * MIB,
            compaction_threads: 2,
        }
    }

    /// Bytes of blocks read from disk.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.memory_bytes / 2
    }

    /// Bytes of unflushed rows, of all trees together, at which commits wait.
    pub(crate) fn unflushed_bytes_max(&self) -> u64 {
        self.memory_bytes - self.cache_bytes()
    }

    /// Bytes of a memtable that is flushed.
    pub(crate) fn flushed_bytes(&self) -> u64 {
        self.memtable_bytes.min(self.unflushed_bytes_max() / UNFLUSHED_MEMTABLES_MIN)
    }
}

const MIB: u64 = 1024 * 1024;

/// Trees that hold rows of spaces. A tree compacts its first level one compaction at a time, so several let several busy
/// tables go on beside each other.
pub(crate) const DATA_TREES: usize = 4;
/// Memtables that unflushed rows may fill at least: four for each of the trees.
const UNFLUSHED_MEMTABLES_MIN: u64 = 16;
/// Memtables of a tree that are flushed together into one table file. More would make the file's sync longer, for which
/// commits wait on a journalling file system.
pub(crate) const FLUSHED_TOGETHER_MAX: usize = 2;
/// Size of a table file. On a journalling file system a commit waits for the sync of a table file that is written
/// at the same time, so files smaller than the default of 64 MiB shorten the longest commits. Yet smaller ones
/// would be thousands on a large disk, each to be opened at a start.
pub(crate) const TABLE_BYTES: u64 = 16 * MIB;
/// Size of a block of a table file, which is read and checked as a whole. Blocks of 4 KiB make scans more expensive,
/// by a tenth, and twice the index; blocks of 16 KiB make point reads more expensive.
pub(crate) const BLOCK_BYTES: u32 = 8 * 1024;
/// Rows of a block from one key that is stored in full to the next. Both ends of a scan are looked for in every block, and
/// the rows from the nearest full key on are decoded for it: with ten rows of a kilobyte that was the whole block. Fewer
/// rows make blocks larger by the prefixes of keys that are stored more often.
pub(crate) const BLOCK_RESTART_ROWS: u8 = 4;
/// Runs of flushed table files that are compacted at once into the first level, which has as many table files. Fewer would
/// be rewritten together with that level more often; more would be looked into by every read.
pub(crate) const COMPACTED_RUNS: u8 = 8;
/// Runs of table files of one tree that may wait for compaction; then commits wait too. Every read may have to look into
/// each of them.
pub(crate) const UNCOMPACTED_RUNS_MAX: usize = 16;
/// Size of a journal file. A commit that does not fit into the rest of one goes into the next; one that fits into none gets
/// a larger one.
pub(crate) const JOURNAL_BYTES: u64 = 32 * MIB;
/// Bytes of one transaction, which is in memory several times while it is committed. An entity group transaction that merges
/// a little into each of a hundred entities of a mebibyte writes a hundred mebibytes.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Journals beyond which memtables that keep the oldest one are flushed, however small. It bounds the replay at the next
/// start.
pub(crate) const JOURNALS_KEPT: usize = 4;
/// Journals at which commits wait for those flushes.
pub(crate) const JOURNALS_MAX: usize = 8;
/// Writes that may wait for their commit; more are refused.
pub(crate) const WAITING_WRITES_MAX: usize = 16 * 1024;
/// Bytes that may wait for their commit; more are refused.
pub(crate) const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Writes in one commit. It bounds how long the first of them waits for the last.
pub(crate) const COMMIT_WRITES_MAX: usize = 4 * 1024;
/// Bytes in one commit, unless a single write is larger.
pub(crate) const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Microseconds between two looks at whether commits may go on.
pub(crate) const STALL_CHECK_US: u64 = 500;
/// How far compaction gives way to requests: to a tenth of the share of a thread that does not.
/// Further, and other processes of a busy machine could keep compaction from working at all, and the commits that wait for
/// it.
pub(crate) const COMPACTION_NICENESS: i32 = 10;
/// Milliseconds between two looks at whether a reader still needs files that were replaced.
pub(crate) const OLD_FILES_CHECK_MS: u64 = 500;
/// Milliseconds between two looks at whether memtables with rows of a dropped space are flushed.
pub(crate) const FLUSH_CHECK_MS: u64 = 5;
/// Milliseconds for which drops gather before their space on disk is reclaimed.
pub(crate) const RECLAIM_GATHER_MS: u64 = 200;
/// Milliseconds after which leftovers that compaction may have removed are looked at again.
pub(crate) const RECLAIM_CHECK_MS: u64 = 60_000;
/// A tree is rewritten when rows of dropped spaces are more than one in so many of its bytes.
pub(crate) const GARBAGE_ONE_IN: u64 = 3;
/// Size up to which a tree is rewritten. Nothing else compacts a tree meanwhile, so commits would wait for the rewrite of a
/// large one; there, rows of dropped spaces go when compaction passes by.
pub(crate) const REWRITE_BYTES_MAX: u64 = 512 * MIB;
/// Files that may be open for reads, whatever the process may open.
pub(crate) const OPEN_FILES_MAX: u64 = 900;
/// Locks that order the writers of partitions. Two partitions share one by chance only.
pub(crate) const STRIPES: usize = 1024;
/// Written bytes after which free disk space is asked for again.
pub(crate) const DISK_CHECK_BYTES: u64 = 16 * MIB;
/// Milliseconds after which free disk space is asked for again.
pub(crate) const DISK_CHECK_MS: u64 = 1_000;
/// Free disk space below which not even deletes are taken: their journal must be written too.
pub(crate) const DISK_FLOOR_BYTES: u64 = 48 * MIB;
/// Rows a `transact` reads before it tells the runtime that it may keep the thread for longer. More than the rows of
/// an entity group transaction: telling costs a thread, and a thread its own share of the allocator's memory.
pub(crate) const ROWS_READ_INLINE: usize = 128;
/// Rows a scan visits before it gives way to others.
pub(crate) const SCAN_ROWS_AT_ONCE: usize = 256;
/// Bytes of a key in a tree, its slot included; a table file keeps the length in 16 bits.
pub(crate) const KEY_BYTES_MAX: usize = u16::MAX as usize;
/// Size of an extent file, unless it has a single larger content.
pub(crate) const EXTENT_BYTES: u64 = 256 * MIB;
/// Contents up to this size, their sums included, go to the extent for small ones.
pub(crate) const SMALL_CONTENT_BYTES_MAX: u64 = MIB;
/// What is reserved at a time for a content of unknown length. A multiple of a block.
pub(crate) const REGION_BYTES_UNKNOWN: u64 = 8 * MIB;
/// Bytes of large contents that may be written and not synced; then their puts wait. A commit waits for what the disk was
/// given before it, so more makes commits beside uploads slower; less makes the uploads slower.
pub(crate) const UNSYNCED_BYTES_MAX: u32 = 2 * 1024 * 1024;
/// Bytes of an extent whose disk space is freed at once. Beside uploads that replace blobs of 64 MiB, a sync of a journal
/// takes 11 ms at p99.9 if each is freed at once, and 4 ms by steps of this size (`tavola-bench free-space`).
pub(crate) const PUNCHED_BYTES_MAX: u64 = MIB;
/// Regions from this size on are written to again, where they are freed. Contents of such a size are large ones.
pub(crate) const FREE_REGION_BYTES_MIN: u64 = SMALL_CONTENT_BYTES_MAX + 1;
/// Bytes of regions that wait to be written to again. Four of the largest contents that share an extent with others.
pub(crate) const FREE_BYTES_MAX: u64 = 512 * MIB;
/// Regions that wait to be written to again. Each may keep a file open.
pub(crate) const FREE_REGIONS_MAX: usize = 64;
/// How long a region waits to be written to again before its disk space is freed.
pub(crate) const FREE_TIME_MAX: Duration = Duration::from_secs(5);
/// Extent files that may be open for reads.
pub(crate) const EXTENT_FILES_OPEN_MAX: usize = 128;
/// Extent files of a backup that may be open while it is made.
pub(crate) const COPIED_EXTENTS_OPEN_MAX: usize = 64;
/// Contents that one commit drops.
pub(crate) const CONTENTS_DROPPED_AT_ONCE: usize = 512;
/// How long nothing was written to an extent of a former run before bytes in it that no content has are given back.
pub(crate) const LEFTOVERS_AGE_MIN: Duration = Duration::from_secs(24 * 3600);
/// Time from the start to the first look for such bytes: short, so that a server that is often restarted looks at all.
pub(crate) const LEFTOVERS_FIRST: Duration = Duration::from_secs(10);
/// Time between two looks for such bytes.
pub(crate) const LEFTOVERS_CHECK: Duration = Duration::from_secs(3600);
