//! What the advisor says: one finding, with the fact, the pattern that fixes it, and the keys it proposes.
//!
//! The texts are whole sentences for a person; the numbers stand beside them for whoever sorts or draws.

use std::fmt;

use serde::Serialize;

use crate::{shown, shown_bytes};

/// Something about the design of a table that the traffic shows to be costly or wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The same for the same finding at any time: rule, account, table and shape.
    pub id: String,
    /// The rule that found it.
    pub rule: Rule,
    /// How bad it is.
    pub severity: Severity,
    /// One line.
    pub title: String,
    /// What was seen, with numbers.
    pub fact: String,
    /// The pattern of the guide that fixes it.
    pub pattern: Pattern,
    /// The heading of the guide that describes the pattern.
    pub guide_section: &'static str,
    /// What to do, in a sentence or two.
    pub advice: String,
    /// What the change costs: extra rows, slower queries.
    pub price: String,
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// The shape of the requests, where it is about one.
    pub shape: Option<String>,
    /// The plan of those requests.
    pub plan: Option<&'static str>,
    /// A real request.
    pub example: Option<Example>,
    /// Keys as they are and as they would be, from the table's own values.
    pub keys: Vec<KeySample>,
    /// What `tavola whatif` can try.
    pub what_if: Option<Proposal>,
    /// What the fix gains over the recorded requests, where keys alone do not show it.
    pub gains: Vec<Gain>,
    /// Requests of this kind in an hour, over the time that was observed.
    pub requests_per_hour: f64,
    /// Rows read by them, in all.
    pub rows_scanned: u64,
    /// Rows returned by them, in all.
    pub rows_returned: u64,
    /// What findings of one severity are ranked by: rows read for each one returned; zero for those that are not about
    /// rows.
    pub weight: f64,
    /// What the requests cost in a month on the real service, where a price table was given.
    pub cost_per_month: Option<f64>,
}

/// A real request.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Example {
    /// What it asked, as a filter or as keys.
    pub request: String,
    /// When, in seconds since the Unix epoch.
    pub at: i64,
    /// Rows it read.
    pub rows_scanned: u64,
    /// Rows it returned.
    pub rows_returned: u64,
    /// How long it took.
    pub total_ms: f64,
}

/// One line of keys: as they are now, as they would be, or how a query would name them.
#[derive(Clone, Debug, Serialize)]
pub struct KeySample {
    /// `now`, `add`, `then` or `query`.
    pub label: &'static str,
    /// The PartitionKey, or the comparisons with it.
    pub partition: Vec<KeyPart>,
    /// The RowKey, or the comparisons with it.
    pub row: Vec<KeyPart>,
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyPart {
    /// Its text.
    pub text: String,
    /// Whether the proposal adds it.
    pub new: bool,
}

impl KeyPart {
    /// A part that is there already.
    pub fn old(text: impl Into<String>) -> Self {
        Self { text: text.into(), new: false }
    }

    /// A part that the proposal adds.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), new: true }
    }
}

/// Keys that can be tried: templates such as `{Department}` and `{LastName}_{RowKey}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Proposal {
    /// The template of the PartitionKey.
    pub partition: String,
    /// The template of the RowKey.
    pub row: String,
    /// Whether rows with these keys are added to those that are there, and do not replace them.
    pub is_index: bool,
}

/// A figure of the recorded requests as it is, and as it would be with the fix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Gain {
    /// What is counted.
    pub kind: GainKind,
    /// As it is.
    pub before: u64,
    /// As it would be; not more.
    pub after: u64,
    /// What is assumed for that.
    pub basis: String,
}

/// What a gain counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GainKind {
    /// Requests.
    Requests,
    /// Bytes.
    Bytes,
    /// Rows read.
    Rows,
    /// Properties of one entity.
    Properties,
    /// Writes that are refused.
    RefusedWrites,
}

impl fmt::Display for Gain {
    /// `500 → 10 requests, in transactions of up to 100`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[allow(clippy::cast_precision_loss, reason = "figures to look at")]
        let [before, after] = [self.before, self.after].map(|count| match self.kind {
            GainKind::Bytes => shown_bytes(count as f64),
            GainKind::Requests | GainKind::Rows | GainKind::Properties | GainKind::RefusedWrites => {
                shown(count as f64)
            }
        });
        let unit = match self.kind {
            GainKind::Requests => " requests",
            GainKind::Bytes => "",
            GainKind::Rows => " rows read",
            GainKind::Properties => " properties",
            GainKind::RefusedWrites => " refused writes",
        };
        write!(f, "{before} → {after}{unit}, {}", self.basis)
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Costs time or money now, or fails later.
    Warning,
    /// Fails or gives wrong results at this rate, or wastes nearly all the work.
    Bad,
}

/// The rules, by what they find. The words are those of `--fail-on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Queries that read the whole table for few rows.
    TableScan,
    /// Queries that read a whole partition for few rows.
    PartitionScan,
    /// Queries that read a range of keys for few rows.
    WideRange,
    /// A partition beyond, or near, what the service promises for one.
    HotPartition,
    /// An account beyond, or near, what the service promises for one.
    HotAccount,
    /// Inserts that all go to the end or the front of the keys.
    AppendOnly,
    /// Entities near the largest size.
    LargeEntity,
    /// Entities near the largest number of properties.
    WideEntity,
    /// Keys that are numbers of different width.
    UnpaddedNumber,
    /// A table that only grows.
    OnlyGrows,
    /// A table that is emptied row by row.
    RowByRowDelete,
    /// Batches of one.
    SingleBatch,
    /// Conditional writes that fail again and again.
    EtagLoop,
    /// Reads of whole large entities.
    SelectAll,
    /// Many small entities that are always read together.
    DataSeries,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::TableScan,
        Self::PartitionScan,
        Self::WideRange,
        Self::HotPartition,
        Self::HotAccount,
        Self::AppendOnly,
        Self::LargeEntity,
        Self::WideEntity,
        Self::UnpaddedNumber,
        Self::OnlyGrows,
        Self::RowByRowDelete,
        Self::SingleBatch,
        Self::EtagLoop,
        Self::SelectAll,
        Self::DataSeries,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TableScan => "table-scan",
            Self::PartitionScan => "partition-scan",
            Self::WideRange => "wide-range",
            Self::HotPartition => "hot-partition",
            Self::HotAccount => "hot-account",
            Self::AppendOnly => "append-only",
            Self::LargeEntity => "large-entity",
            Self::WideEntity => "wide-entity",
            Self::UnpaddedNumber => "unpadded-number",
            Self::OnlyGrows => "only-grows",
            Self::RowByRowDelete => "row-by-row-delete",
            Self::SingleBatch => "single-batch",
            Self::EtagLoop => "etag-loop",
            Self::SelectAll => "select-all",
            Self::DataSeries => "data-series",
        }
    }

    /// The rule of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.as_str() == word)
    }
}

/// The patterns of the guide that a finding can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names of the guide")]
pub enum Pattern {
    IntraPartitionIndex,
    InterPartitionIndex,
    IndexEntities,
    CompoundKey,
    LogTail,
    HighVolumeDelete,
    DataSeries,
    WideEntities,
    LargeEntities,
    PrependAppend,
    LogData,
    ChoosingPartitionKey,
    SortingData,
    EntityGroupTransactions,
    ManagingConcurrency,
    ServerSideProjection,
}

impl Pattern {
    /// The heading of the guide that describes it.
    pub fn guide_section(self) -> &'static str {
        match self {
            Self::IntraPartitionIndex => "Intra-partition secondary index pattern",
            Self::InterPartitionIndex => "Inter-partition secondary index pattern",
            Self::IndexEntities => "Index Entities Pattern",
            Self::CompoundKey => "Compound key pattern",
            Self::LogTail => "Log tail pattern",
            Self::HighVolumeDelete => "High volume delete pattern",
            Self::DataSeries => "Data series pattern",
            Self::WideEntities => "Wide entities pattern",
            Self::LargeEntities => "Large entities pattern",
            Self::PrependAppend => "Prepend/append anti-pattern",
            Self::LogData => "Log data anti-pattern",
            Self::ChoosingPartitionKey => "Choosing an appropriate PartitionKey",
            Self::SortingData => "Sorting data in the Table service",
            Self::EntityGroupTransactions => "Entity Group Transactions",
            Self::ManagingConcurrency => "Managing concurrency",
            Self::ServerSideProjection => "Server-side projection",
        }
    }
}
