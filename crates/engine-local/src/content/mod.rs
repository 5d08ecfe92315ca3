//! Contents of blobs: their bytes in extent files beside the rows, their index in rows.
//!
//! A put goes down this list once: `put` takes the pieces of its source, reserves a region in one of the `extents` that
//! are open, and writes the pieces and then their `sums`; `sync` makes that durable, one sync for all who wait on the
//! extent; then the row of the `index` is queued to the committer, and not waited for. Whatever row names the content is
//! queued later, so the commit that makes that row durable makes the content findable too.
//!
//! A read looks the content up in the index and checks every piece before it leaves (`read`). A drop removes the index
//! row, waits for the readers of this process, and then frees the disk space (`sweep`); that of a large content may be
//! written to again instead (`free_list`).
//!
//! Invariants: an index row is queued only when its bytes are synced. A region is given back, and only then written to again, when its index row
//! is durably gone, or was never queued. An extent is named in the catalog before an index row names it.

mod copy;
mod extent;
mod extents;
mod free_list;
mod index;
mod put;
mod read;
mod readers;
mod store;
mod sums;
mod sweep;
mod sync;
mod verify;

pub(crate) use copy::{ContentCopy, CopyError};
pub(crate) use extent::inspect;
pub(crate) use extents::folder_in;
pub(crate) use index::INDEX_SPACE;
pub(crate) use store::ContentDisk;
pub use store::{ContentUsage, LocalContents};

#[cfg(test)]
mod disk_test;
#[cfg(test)]
mod power_test;
pub(crate) use verify::ContentCheck;
