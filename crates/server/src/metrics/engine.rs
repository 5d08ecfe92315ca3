//! Figures of the store, and of the other servers on it.

use tavola_engine_cql::CqlMetrics;
use tavola_engine_local::{LocalEngine, LocalMetrics};
use tavola_frontend::AffinityMetrics;

use super::family::{Family, Kind, Series, Value, seconds};
use crate::cluster;

/// What the contents of blobs take.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentFigures {
    bytes: u64,
    extents: u64,
}

impl ContentFigures {
    /// Read now; what cannot be read is not shown.
    pub fn read(engine: &LocalEngine) -> Option<Self> {
        let usage = engine.contents().usage().ok()?;
        Some(Self { bytes: usage.bytes, extents: usage.extents })
    }
}

/// The embedded store.
pub fn local(metrics: &LocalMetrics, contents: Option<&ContentFigures>) -> Vec<Family> {
    let reads = [("cache", metrics.blocks_cached), ("disk", metrics.blocks_read)];
    let reads = reads.map(|(source, count)| Series {
        labels: vec![("source", source.to_owned())],
        value: Value::Whole(count),
    });
    let mut families = vec![
        Family::single(
            "tavola_engine_commit_writes",
            Kind::Histogram,
            "Writes that one sync made durable together; their count is the number of commits",
            Value::numbers(&metrics.commit_writes),
        ),
        Family::single(
            "tavola_engine_sync_seconds",
            Kind::Histogram,
            "Time that a commit took to be in the journal and on the disk",
            Value::seconds(&metrics.sync_ns),
        ),
        Family::counter(
            "tavola_engine_write_stalls_total",
            "Commits that waited for flushes or compaction",
            metrics.stalls,
        ),
        Family::single(
            "tavola_engine_write_stall_seconds_total",
            Kind::Counter,
            "Time that commits waited for flushes or compaction",
            seconds(metrics.stall_ns),
        ),
        Family::counter(
            "tavola_engine_flushes_total",
            "Times that rows in memory were written to table files",
            metrics.flushes,
        ),
        Family::single(
            "tavola_engine_flush_seconds_total",
            Kind::Counter,
            "Time that flushes took",
            seconds(metrics.flush_ns),
        ),
        Family::counter(
            "tavola_engine_compactions_total",
            "Compactions that changed table files",
            metrics.compactions,
        ),
        Family::single(
            "tavola_engine_compaction_seconds_total",
            Kind::Counter,
            "Time that compactions took",
            seconds(metrics.compaction_ns),
        ),
        Family::labelled(
            "tavola_engine_block_reads_total",
            Kind::Counter,
            "Blocks of table files that were needed, by where they were found",
            &["source"],
            reads.into(),
        ),
        Family::gauge(
            "tavola_engine_unflushed_bytes",
            "Bytes of rows that are in memory and in journals, but in no table file yet",
            metrics.unflushed_bytes,
        ),
        Family::gauge(
            "tavola_engine_cache_bytes",
            "Bytes of blocks of table files that are kept in memory",
            metrics.cached_bytes,
        ),
        Family::gauge("tavola_engine_journals", "Journals that a restart would read", metrics.journals),
        Family::gauge(
            "tavola_engine_failed",
            "1 when no more writes are taken until a restart, because the disk failed",
            u64::from(metrics.has_failed),
        ),
        Family::gauge(
            "tavola_disk_reserve_bytes",
            "Free bytes of the disk below which writes are refused",
            metrics.disk_reserve_bytes,
        ),
    ];
    families.extend(metrics.disk_free_bytes.map(|bytes| {
        Family::gauge("tavola_disk_free_bytes", "Free bytes of the disk that has the data folder", bytes)
    }));
    families.extend(contents.into_iter().flat_map(|contents| {
        [
            Family::gauge(
                "tavola_content_bytes",
                "Bytes on the disk that contents of blobs take",
                contents.bytes,
            ),
            Family::gauge("tavola_content_extents", "Files that hold contents of blobs", contents.extents),
        ]
    }));
    families
}

/// The store on a cluster.
pub fn cluster(metrics: &CqlMetrics) -> Vec<Family> {
    let counters = cluster::counters(metrics).into_iter();
    let gauges = cluster::gauges(metrics).into_iter();
    counters
        .map(|(name, help, value)| Family::counter(name, help, value))
        .chain(gauges.map(|(name, help, value)| Family::gauge(name, help, value)))
        .collect()
}

/// The other servers.
pub fn affinity(metrics: &AffinityMetrics) -> Vec<Family> {
    vec![
        Family::gauge("tavola_members", "Servers on the cluster that are up", metrics.members),
        Family::counter(
            "tavola_forwarded_total",
            "Writes that the server which owns their partition answered",
            metrics.forwarded,
        ),
        Family::counter(
            "tavola_forward_failures_total",
            "Writes that could not be forwarded to the server which owns their partition",
            metrics.failures,
        ),
    ]
}
