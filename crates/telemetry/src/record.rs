//! The access record.

use std::sync::Arc;
use std::time::Duration;

use tavola_model::{AccountName, DateTime, ErrorCode, Filter, PlanReport, StorageService};

use crate::detail::RequestDetail;
use crate::trace::TraceParent;

/// One request, after it was answered.
#[derive(Clone, Debug)]
pub struct AccessRecord {
    /// When it was received.
    pub received: DateTime,
    /// The account it addressed; `None` if its address named none.
    pub account: Option<AccountName>,
    /// The service whose port was asked.
    pub service: StorageService,
    /// The service's own word for the operation; `None` if the request was refused before it was known.
    pub operation: Option<&'static str>,
    /// The table, queue or container.
    pub resource: Option<Box<str>>,
    /// What of it was asked for.
    pub target: Target,
    /// How a query ran.
    pub plan: Option<PlanReport>,
    /// Rows that were read from the store to answer.
    pub rows_scanned: u64,
    /// Entities, messages or names in the answer, or rows written.
    pub rows_returned: u64,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// Where the time went.
    pub durations: Durations,
    /// The HTTP status of the answer; 0 if its client went away before there was one.
    pub status: u16,
    /// The code of a refusal.
    pub code: Option<ErrorCode>,
    /// Whether it was refused because of load and not because of what it asked.
    pub throttled: bool,
    /// The id that the answer carried.
    pub request_id: Box<str>,
    /// The id that the client gave it.
    pub client_request_id: Option<Box<str>>,
    /// The span of the client's trace that it belongs to.
    pub trace_parent: Option<TraceParent>,
    /// What a log of requests wants to know, where one is kept.
    pub detail: Option<Box<RequestDetail>>,
    /// How many requests this one stands for: more than one when only some are recorded under load.
    pub weight: u32,
}

impl AccessRecord {
    /// A record of a request of which nothing is known yet.
    pub fn new(received: DateTime, service: StorageService) -> Self {
        Self {
            received,
            account: None,
            service,
            operation: None,
            resource: None,
            target: Target::Whole,
            plan: None,
            rows_scanned: 0,
            rows_returned: 0,
            bytes_in: 0,
            bytes_out: 0,
            durations: Durations::default(),
            status: 0,
            code: None,
            throttled: false,
            request_id: Box::default(),
            client_request_id: None,
            trace_parent: None,
            detail: None,
            weight: 1,
        }
    }
}

/// What of a resource a request asked for.
#[derive(Clone, Debug, Default)]
pub enum Target {
    /// Nothing inside of it, or nothing that is recorded.
    #[default]
    Whole,
    /// One entity, or one blob or message (then the partition is its name and the row is empty).
    Entity {
        /// Its PartitionKey.
        partition: Box<str>,
        /// Its RowKey.
        row: Box<str>,
        /// Properties it was written with, or that a read names with `$select`; zero for a read of all and for a delete.
        properties: u16,
    },
    /// Entities, by a filter.
    Query(Arc<QueryTarget>),
    /// Several writes to one partition.
    Batch {
        /// The PartitionKey of all.
        partition: Box<str>,
        /// The RowKey of the first.
        row: Box<str>,
        /// How many.
        operations: u16,
        /// How many of them insert, or replace or merge what may not be there.
        inserts: u16,
        /// How many of them delete.
        deletes: u16,
        /// The most properties that one of them was written with.
        properties_max: u16,
        /// Of the RowKeys that are inserted and end in a number, the one with the fewest digits and the one with the most.
        numbers: Option<(Box<str>, Box<str>)>,
    },
}

/// What a query asked for.
#[derive(Clone, Debug)]
pub struct QueryTarget {
    /// The filter; `None` asks for everything.
    pub filter: Option<Filter>,
    /// The properties that were selected; empty means all of them.
    pub select: Vec<Box<str>>,
    /// The page size that was asked for.
    pub top: Option<u32>,
    /// Whether it went on where an earlier page ended.
    pub is_continuation: bool,
}

/// Where the time of a request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// From the head to the begin of the execution: body, signature, decoding, waiting for the budget.
    pub queued: Duration,
    /// In the service and the store.
    pub executed: Duration,
    /// From the head until the answer was handed to the connection.
    pub total: Duration,
}

/// Whoever wants the records. Called off the path of requests, with a batch at a time; it may take its time but must
/// bound what it keeps.
pub trait RecordSink: Send + Sync {
    /// Takes note of some records, oldest first.
    fn observe(&self, records: &[AccessRecord]);
}
