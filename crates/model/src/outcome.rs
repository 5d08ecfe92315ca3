//! What a command gave when it succeeded: the outcomes that all services share, and the sum.

use crate::{BlobOutcome, DateTime, QueueOutcome, ServiceProperties, TableOutcome};

/// The result of a command.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Of the service as a whole.
    Account(AccountOutcome),
    /// Of the table service.
    Table(TableOutcome),
    /// Of the queue service.
    Queue(QueueOutcome),
    /// Of the blob service. Boxed, as its commands are.
    Blob(Box<BlobOutcome>),
}

/// The result of a command about a service of an account.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AccountOutcome {
    ServicePropertiesFetched(Box<ServiceProperties>),
    ServicePropertiesSet,
    ServiceStatsFetched(ServiceStats),
    PreflightAllowed(PreflightAllowed),
}

/// Geo-replication as the secondary endpoint reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceStats {
    /// Everything written before this time is on the secondary (which here reads the same store).
    pub last_sync: DateTime,
}

/// What a browser may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightAllowed {
    /// `*` or the origin that asked.
    pub origin: String,
    /// The method that was asked for.
    pub method: String,
    /// The headers that were asked for.
    pub headers: Vec<String>,
    /// How long to remember this.
    pub max_age_seconds: u32,
}
