//! What became of every request: one [`AccessRecord`] for each, made in one place of the pipeline, and handed to
//! whoever counts, shows or advises.
//!
//! The rule: a record never holds a key of an account, a signature or the content of an entity, a message or a blob.
//! It holds names, keys of entities and the text of filters, because those are what a table design is about.

mod counts;
mod detail;
mod histogram;
mod record;
mod recorder;
mod trace;

pub use counts::{
    Counted, CountsReading, LATENCY_BOUNDS_NS, OperationReading, PLAN_KINDS, RequestCounts, SERVICES,
    STATUS_CLASSES, ServiceReading, UNKNOWN_OPERATION,
};
pub use detail::{AccessKind, Authentication, LoggedFields, RequestDetail};
pub use histogram::{BUCKETS_MAX, Histogram, HistogramReading};
pub use record::{AccessRecord, Durations, QueryTarget, RecordSink, Target};
pub use recorder::{DetailOf, Recorder};
pub use trace::TraceParent;
