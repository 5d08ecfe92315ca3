//! What an operator can choose, and the bounds that follow.

use std::path::PathBuf;

/// Settings of the embedded engine.
#[derive(Clone, Debug)]
pub struct LocalSettings {
    /// The data folder. It is made if it does not exist.
    pub data_dir: PathBuf,
    /// Memory for blocks read from disk.
    pub cache_bytes: u64,
    /// Memory that the newest rows of one space fill before they are written out as a table file. A space that
    /// is written faster than the disk takes it may hold up to four of these for a while.
    pub memtable_bytes: u64,
    /// Free disk space below which writes are refused.
    pub disk_reserve_bytes: u64,
    /// Threads that merge table files.
    pub merge_threads: usize,
}

impl LocalSettings {
    /// The defaults. A server with a million rows of 1 KB had 163 MiB resident after filling and 207 MiB after reads,
    /// pages and inserts (`docs/performance.md`). Commits wait while a memtable is written out and synced, so small ones
    /// shorten the longest waits.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            cache_bytes: 64 * MIB,
            memtable_bytes: 4 * MIB,
            disk_reserve_bytes: 256 * MIB,
            merge_threads: 2,
        }
    }
}

const MIB: u64 = 1024 * 1024;

/// Size of a table file. On a journalling file system a commit waits for the sync of a table file that is written
/// at the same time, so files smaller than the store's default of 64 MiB shorten the longest commits. Yet smaller ones
/// would be thousands on a large disk, each to be opened at a start.
pub(crate) const TABLE_BYTES: u64 = 16 * MIB;
/// Size of a block of a table file, which is read and checked as a whole. Blocks of 4 KiB make scans dearer, by a tenth,
/// and twice the index; blocks of 16 KiB make point reads dearer.
pub(crate) const BLOCK_BYTES: u32 = 8 * 1024;
/// Written-out memtables that are merged at once into the first level, which has as many table files. Fewer would be
/// rewritten together with that level more often; more would be looked into by every read.
pub(crate) const MERGED_RUNS: u8 = 8;
/// Journal bytes kept before spaces with old unwritten rows are made to write them out. It bounds the replay at
/// the next start, and the memory of all spaces together: a row in memory is a row in a journal.
pub(crate) const JOURNAL_BYTES_MAX: u64 = 128 * MIB;
/// Writes that may wait for their commit; more are refused.
pub(crate) const WAITING_WRITES_MAX: usize = 16 * 1024;
/// Bytes that may wait for their commit; more are refused.
pub(crate) const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Writes in one commit. It bounds how long the first of them waits for the last.
pub(crate) const COMMIT_WRITES_MAX: usize = 4 * 1024;
/// Bytes in one commit, unless a single write is larger.
pub(crate) const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Full memtables of one space that may wait to be written out; then commits wait too. One below fjall's own bound,
/// at which it sleeps for 100 ms at a time, and for ever if its threads have failed.
pub(crate) const SEALED_MEMTABLES_MAX: usize = 3;
/// Microseconds between two looks at whether commits may go on.
pub(crate) const ROOM_CHECK_US: u64 = 500;
/// Runs of table files of one space that may wait to be merged; then commits wait too. Every read may have to look into
/// each of them. Below fjall's own bounds, at which it first spins and then sleeps, for ever if merging has failed.
pub(crate) const UNMERGED_RUNS_MAX: usize = 16;
/// Milliseconds between two looks at whether there is something to merge in a space that is written to.
pub(crate) const MERGE_CHECK_MS: u64 = 25;
/// How far merging gives way to requests: to a tenth of the share of a thread that does not. Further, and other
/// processes of a busy machine could keep it from working at all, and the commits that wait for it.
pub(crate) const MERGE_NICENESS: i32 = 10;
/// Locks that order the writers of partitions. Two partitions share one by chance only.
pub(crate) const STRIPES: usize = 1024;
/// Written bytes after which free disk space is asked for again.
pub(crate) const DISK_CHECK_BYTES: u64 = 16 * MIB;
/// Milliseconds after which free disk space is asked for again.
pub(crate) const DISK_CHECK_MS: u64 = 1_000;
/// Rows a `transact` reads before it tells the runtime that it may keep the thread for longer. More than the rows of
/// an entity group transaction: telling costs a thread, and a thread its own share of the allocator's memory.
pub(crate) const ROWS_READ_INLINE: usize = 128;
/// Rows a scan visits before it gives way to others.
pub(crate) const SCAN_ROWS_AT_ONCE: usize = 256;
/// Bytes of a stored key; the store below keeps the length in 16 bits.
pub(crate) const KEY_BYTES_MAX: usize = u16::MAX as usize;
