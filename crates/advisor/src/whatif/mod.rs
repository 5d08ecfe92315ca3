//! What if the table had other keys: the recorded requests, replayed against a copy of its rows.
//!
//! The rows are read once and written to two stores in memory, as they are and with the proposed keys. The recorded
//! queries run on both through the real planner and service. The table is only ever read. A query is translated by
//! what its filter says about the properties in the proposed keys (`translate.rs`); where it says nothing, it scans.

mod copy;
mod replay;
#[cfg(test)]
mod tests;
mod translate;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tavola_auth::Account;
use tavola_model::{Clock, RandomSource, ServiceError, TableName};
use tavola_service::Service;

use crate::traffic::PlanMix;
use crate::{Proposal, Template, TemplateError, Traffic};

/// Bytes of entities that are copied at most, by the service's own formula; there are two copies.
const COPY_BYTES_MAX: u64 = 128 * 1024 * 1024;
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What to try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WhatIf {
    /// The table.
    pub table: String,
    /// The template of the PartitionKey.
    pub partition: String,
    /// The template of the RowKey.
    pub row: String,
    /// Whether the rows with these keys are an index beside the table, and do not replace its rows.
    pub is_index: bool,
    /// Rows that are copied at most.
    pub entities_max: u64,
}

/// What it would change.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIfReport {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// The keys that were tried.
    pub proposal: Proposal,
    /// Rows that were copied.
    pub entities: u64,
    /// Whether these were all there are.
    pub is_whole_table: bool,
    /// Requests that were replayed, and how many recorded ones they stand for.
    pub replayed: u64,
    /// See `replayed`.
    pub recorded: u64,
    /// Entities whose proposed keys another one has already.
    pub collisions: KeyProblem,
    /// Entities that have no proposed keys: a property is missing, or its value cannot stand in a key.
    pub without_key: KeyProblem,
    /// As it is.
    pub before: Side,
    /// As it would be.
    pub after: Side,
    /// Each shape of requests, the one that reads most first.
    pub shapes: Vec<ShapeChange>,
}

/// Entities that a proposal does not suit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KeyProblem {
    /// How many.
    pub count: u64,
    /// The first few, with the reason.
    pub examples: Vec<String>,
}

impl KeyProblem {
    pub(crate) fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < 5 {
            self.examples.push(example());
        }
    }
}

/// The replay on one side.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Side {
    /// How requests ran, each sample counted for those it stands for.
    pub plans: PlanMix,
    /// Rows read by the recorded requests, extrapolated from the samples.
    pub rows_scanned: f64,
    /// Rows they returned.
    pub rows_returned: f64,
    /// The partition that the sampled requests by key meet most.
    pub hottest: Option<PartitionShare>,
    /// The same among the last requests alone: where they meet at one moment.
    pub hottest_lately: Option<PartitionShare>,
    /// The partition with the most entities.
    pub largest: Option<PartitionShare>,
    /// Partitions.
    pub partitions: u64,
    /// Entities, with those of an index.
    pub entities: u64,
    /// Their bytes by the service's own formula.
    pub bytes: u64,
}

/// A partition and its share.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PartitionShare {
    /// Its PartitionKey.
    pub key: String,
    /// Requests, or entities.
    pub count: u64,
    /// Of all, between 0 and 1.
    pub share: f64,
}

/// What becomes of one shape of requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShapeChange {
    /// The shape.
    pub shape: String,
    /// Recorded requests of it.
    pub recorded: u64,
    /// The plan before and after.
    pub plan_before: &'static str,
    /// See `plan_before`.
    pub plan_after: &'static str,
    /// Rows that one request reads, before and after.
    pub scanned_before: f64,
    /// See `scanned_before`.
    pub scanned_after: f64,
    /// Entities that one request returns, before and after.
    pub returned_before: f64,
    /// See `returned_before`.
    pub returned_after: f64,
    /// A filter before and after.
    pub example_before: String,
    /// See `example_before`.
    pub example_after: String,
    /// Whether both sides returned as many entities; they do not where some have no key or collide, or where the order was
    /// mended.
    pub is_same_result: bool,
    /// Whether a range of numbers that were compared as text compares them as numbers now, and so returns what was meant.
    pub is_order_mended: bool,
}

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// No requests to the table are recorded.
    #[error("no requests to the table {0} are recorded")]
    NoTraffic(String),
    /// The name is none.
    #[error("{0} is not the name of a table")]
    Name(String),
    /// A template is not valid.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// The table could not be read.
    #[error("the table cannot be read: {0}")]
    Service(ServiceError),
}

impl From<ServiceError> for WhatIfError {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

/// Where the copies get their time and ids from.
#[derive(Clone)]
pub struct Sources {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn RandomSource>,
}

/// Tries other keys on a copy of a table. The table is read and never written.
pub async fn what_if(
    service: &Service,
    account: &Account,
    traffic: &Traffic,
    asked: &WhatIf,
    sources: &Sources,
) -> Result<WhatIfReport, WhatIfError> {
    let templates = copy::Templates {
        partition: Template::parse(&asked.partition)?,
        row: Template::parse(&asked.row)?,
        is_index: asked.is_index,
    };
    let table = TableName::parse(&asked.table).map_err(|_| WhatIfError::Name(asked.table.clone()))?;
    let recorded = traffic.table(account.name().as_str(), &asked.table);
    let recorded = recorded.ok_or_else(|| WhatIfError::NoTraffic(asked.table.clone()))?;
    // Copies take memory, so there is one pair at a time.
    let _turn = TURN.lock().await;
    let bounds = (asked.entities_max, COPY_BYTES_MAX);
    let copies = copy::Copies::make(service, account, &table, &templates, bounds, sources).await?;
    let replayed = replay::replay(&copies, &templates, &recorded).await?;
    Ok(WhatIfReport {
        account: account.name().as_str().to_owned(),
        table: recorded.table.clone(),
        proposal: Proposal {
            partition: asked.partition.clone(),
            row: asked.row.clone(),
            is_index: asked.is_index,
        },
        entities: copies.entities,
        is_whole_table: copies.is_whole_table,
        replayed: replayed.replayed,
        recorded: replayed.recorded,
        collisions: copies.collisions,
        without_key: copies.without_key,
        before: replayed.before,
        after: replayed.after,
        shapes: replayed.shapes,
    })
}
