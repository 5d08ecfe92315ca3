//! What the observed traffic and the stored bytes cost in a month on the real service.
//!
//! The prices are a file that the user can edit; those built in are a starting point, since prices differ by region,
//! redundancy and contract. The traffic is taken as if it went on at the observed rate for a month of 730 hours.

use serde::{Deserialize, Serialize};

use crate::traffic::ShapeTraffic;
use crate::{Shape, TableFacts, Traffic};

const HOURS_PER_MONTH: f64 = 730.0;
const GIGABYTE: f64 = 1024.0 * 1024.0 * 1024.0;

/// Prices that the user can edit.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceTable {
    /// The sign of the currency.
    pub currency: String,
    /// For a gigabyte stored for a month.
    pub storage_gb_month: f64,
    /// For ten thousand requests that write; a batch is one.
    pub writes_10k: f64,
    /// For ten thousand requests that read one entity or one page.
    pub reads_10k: f64,
    /// For ten thousand requests that delete.
    pub deletes_10k: f64,
    /// For a gigabyte of answers that leave the region.
    pub egress_gb: f64,
    /// Rows that the service reads for one page of a query, at most, before it answers with a continuation, which is
    /// another request.
    pub scan_rows_per_request: f64,
}

impl Default for PriceTable {
    fn default() -> Self {
        Self {
            currency: "$".to_owned(),
            storage_gb_month: 0.045,
            writes_10k: 0.00036,
            reads_10k: 0.00036,
            deletes_10k: 0.00036,
            egress_gb: 0.0,
            scan_rows_per_request: 5_000.0,
        }
    }
}

/// The default prices as a file, with what each means.
pub const PRICES_FILE: &str = "\
# Prices of Azure Table storage, for `tavola advise --prices FILE`.
#
# CHECK THEM: these are defaults of 2026-11-16, in US dollars for locally redundant storage. Nothing here is read from
# Azure, and what you pay depends on region, redundancy, account kind and contract. Current prices:
# https://azure.microsoft.com/pricing/details/storage/tables/

currency = \"$\"

# A gigabyte stored for a month. No document confirmed this figure on the date above.
storage_gb_month = 0.045

# Ten thousand requests. An entity group transaction is one request. No document confirmed these on the date above.
writes_10k = 0.00036
reads_10k = 0.00036
deletes_10k = 0.00036

# A gigabyte of answers. Nothing inside of a region; to the internet about 0.087 after the first 100 GB of a month, as
# https://c3x.dev/blog/azure-egress-bandwidth-cost/ had it on the date above.
egress_gb = 0.0

# How many rows the service reads for one request before it stops and answers with a continuation: after five seconds,
# a thousand entities, or at the boundary of a partition server
# (https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination). A scan of more rows takes more
# requests. The number of rows that five seconds are enough for is a guess: measure yours.
scan_rows_per_request = 5000.0
";
/// When the default prices were looked at last.
pub const PRICES_DATE: &str = "2026-11-16";

/// What everything costs in a month.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CostReport {
    /// The sign of the currency.
    pub currency: String,
    /// When the default prices were looked at last, if costs are computed with them: the user has to check them.
    pub default_prices_of: Option<&'static str>,
    /// All tables.
    pub total_per_month: f64,
    /// Whether all sizes in it were counted, and none estimated.
    pub is_exact: bool,
    /// For how long the traffic was observed, in hours; the longest of all tables.
    pub observed_hours: f64,
    /// The most expensive first.
    pub tables: Vec<TableCost>,
}

/// What one table costs in a month.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TableCost {
    /// The account.
    pub account: String,
    /// The table.
    pub table: String,
    /// Its stored bytes.
    pub bytes: u64,
    /// Whether they were counted, and not estimated.
    pub is_exact: bool,
    /// For its stored bytes.
    pub storage_per_month: f64,
    /// For its requests.
    pub requests_per_month: f64,
    /// The shapes of its requests, the most expensive first.
    pub shapes: Vec<ShapeCost>,
}

/// What requests of one shape cost in a month.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShapeCost {
    /// The shape.
    pub shape: String,
    /// Requests that were observed.
    pub observed: u64,
    /// Requests in a month, at the observed rate.
    pub requests: f64,
    /// Their cost.
    pub cost_per_month: f64,
    /// The cost of one.
    pub cost_each: f64,
    /// Of the cost, what rows cost that were read and not returned.
    pub wasted_per_month: f64,
}

impl CostReport {
    /// Keeps some tables, and their total.
    pub fn retain(&mut self, is_kept: impl Fn(&TableCost) -> bool) {
        self.tables.retain(is_kept);
        self.add_up();
    }

    fn add_up(&mut self) {
        self.total_per_month = self.tables.iter().map(TableCost::per_month).sum();
        self.is_exact = self.tables.iter().all(|table| table.is_exact);
    }

    /// The cost of one shape.
    pub fn shape(&self, account: &str, table: &str, shape: &str) -> Option<&ShapeCost> {
        let table = self.tables.iter().find(|cost| cost.account == account && cost.table == table)?;
        table.shapes.iter().find(|cost| cost.shape == shape)
    }
}

impl TableCost {
    fn per_month(&self) -> f64 {
        self.storage_per_month + self.requests_per_month
    }
}

/// Prices the traffic and what is stored.
pub fn cost(traffic: &Traffic, facts: &TableFacts, prices: &PriceTable) -> CostReport {
    let default_prices_of = (*prices == PriceTable::default()).then_some(PRICES_DATE);
    let mut report =
        CostReport { currency: prices.currency.clone(), default_prices_of, ..CostReport::default() };
    for table in traffic.tables() {
        let hours = table.hours();
        let fact = facts.of(&table.account, &table.table);
        let bytes = fact.map_or(0, |fact| fact.bytes);
        let mut shapes: Vec<ShapeCost> =
            table.shapes.iter().map(|(text, shape)| shape_cost(text, shape, hours, prices)).collect();
        shapes.sort_by(|left, right| right.cost_per_month.total_cmp(&left.cost_per_month));
        report.observed_hours = report.observed_hours.max(hours);
        report.tables.push(TableCost {
            account: table.account.clone(),
            table: table.table.clone(),
            bytes,
            // A table that is not there any more takes nothing.
            is_exact: fact.is_none_or(|fact| fact.is_exact),
            storage_per_month: number(bytes) / GIGABYTE * prices.storage_gb_month,
            requests_per_month: shapes.iter().map(|shape| shape.cost_per_month).sum(),
            shapes,
        });
    }
    let known = |fact: &crate::TableFact| {
        report
            .tables
            .iter()
            .any(|cost| cost.account == fact.account && cost.table.eq_ignore_ascii_case(&fact.table))
    };
    let silent: Vec<TableCost> = facts
        .tables
        .iter()
        .filter(|fact| !known(fact))
        .map(|fact| TableCost {
            account: fact.account.clone(),
            table: fact.table.clone(),
            bytes: fact.bytes,
            is_exact: fact.is_exact,
            storage_per_month: number(fact.bytes) / GIGABYTE * prices.storage_gb_month,
            ..TableCost::default()
        })
        .collect();
    report.tables.extend(silent);
    report.tables.sort_by(|left, right| right.per_month().total_cmp(&left.per_month()));
    report.add_up();
    report
}

fn shape_cost(text: &str, shape: &ShapeTraffic, hours: f64, prices: &PriceTable) -> ShapeCost {
    let months = HOURS_PER_MONTH / hours;
    let price_10k = match text {
        "DeleteEntity" => prices.deletes_10k,
        "GetEntity" | Shape::OTHER => prices.reads_10k,
        _ if shape.is_query => prices.reads_10k,
        _ => prices.writes_10k,
    };
    let rows_each = number(shape.rows_scanned) / number(shape.queries());
    let returned_each = number(shape.rows_returned) / number(shape.queries());
    // A query takes as many requests as it took here, or as its rows take there, whichever is more.
    let pages_here = number(shape.count) / number(shape.queries());
    let pages = |rows: f64| (rows / prices.scan_rows_per_request.max(1.0)).ceil().max(1.0);
    let requests_each = if shape.is_query { pages(rows_each).max(pages_here) } else { 1.0 };
    let requests_needed = if shape.is_query {
        pages(returned_each).max(pages_here.min((returned_each / 1000.0).ceil().max(1.0)))
    } else {
        1.0
    };
    let asked = if shape.is_query { number(shape.queries()) } else { number(shape.count) };
    let egress = number(shape.bytes_out) / GIGABYTE * prices.egress_gb * months;
    let for_requests = |each: f64| asked * each / 10_000.0 * price_10k * months;
    let cost_per_month = for_requests(requests_each) + egress;
    ShapeCost {
        shape: text.to_owned(),
        observed: shape.count,
        requests: asked * months,
        cost_per_month,
        cost_each: cost_per_month / (asked * months).max(1.0),
        wasted_per_month: (for_requests(requests_each) - for_requests(requests_needed)).max(0.0),
    }
}

#[allow(clippy::cast_precision_loss, reason = "money to look at")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use tavola_telemetry::RecordSink as _;

    use super::*;
    use crate::testing::{entity, query};
    use crate::{TableFact, TrafficSettings};

    #[test]
    fn the_file_of_prices_holds_the_defaults() {
        assert_eq!(toml::from_str::<PriceTable>(PRICES_FILE).unwrap(), PriceTable::default());
        assert!(toml::from_str::<PriceTable>("reads_10 = 1.0").is_err());
    }

    #[test]
    fn a_scan_costs_as_many_requests_as_its_rows_take() {
        let traffic = Traffic::new(TrafficSettings::default());
        // 3,600 of each in an hour.
        for n in 0..=3600_u64 {
            traffic.observe(&[
                query("T", n * 1000, "A eq 1", 50_000, 1),
                entity("T", n * 1000, "GetEntity", "p", "r"),
            ]);
        }
        let facts = TableFacts {
            tables: vec![TableFact {
                account: "devstoreaccount1".to_owned(),
                table: "t".to_owned(),
                bytes: 2 * 1024 * 1024 * 1024,
                ..TableFact::default()
            }],
        };
        let report = cost(&traffic, &facts, &PriceTable::default());
        assert_eq!(report.tables.len(), 1);
        let table = &report.tables[0];
        assert!((table.storage_per_month - 0.09).abs() < 1e-9);
        let scan = report.shape("devstoreaccount1", "T", "A eq ?").unwrap();
        let point = report.shape("devstoreaccount1", "T", "GetEntity").unwrap();
        let expected = 3601.0 * 730.0 / 10_000.0 * 0.00036;
        assert!((point.cost_per_month - expected).abs() < 1e-9, "{point:?}");
        assert!((scan.cost_per_month - 10.0 * expected).abs() < 1e-9, "{scan:?}");
        assert!((scan.wasted_per_month - 9.0 * expected).abs() < 1e-9, "{scan:?}");
        assert!((scan.cost_each - 10.0 * 0.00036 / 10_000.0).abs() < 1e-12);
        assert_eq!(table.shapes[0].shape, "A eq ?");
    }

    #[test]
    fn an_estimated_size_makes_the_total_an_estimate() {
        let fact = |table: &str, is_exact| TableFact {
            account: "devstoreaccount1".to_owned(),
            table: table.to_owned(),
            bytes: 1024 * 1024 * 1024,
            is_exact,
            ..TableFact::default()
        };
        let facts = TableFacts { tables: vec![fact("small", true), fact("large", false)] };
        let mut report = cost(&Traffic::new(TrafficSettings::default()), &facts, &PriceTable::default());
        assert!(!report.is_exact && (report.total_per_month - 0.09).abs() < 1e-9);
        report.retain(|table| table.table == "small");
        assert!(report.is_exact && (report.total_per_month - 0.045).abs() < 1e-9);
    }

    #[test]
    fn nothing_asked_costs_nothing_but_storage() {
        let traffic = Traffic::new(TrafficSettings::default());
        let report = cost(&traffic, &TableFacts::default(), &PriceTable::default());
        assert!(report.total_per_month.abs() < f64::EPSILON && report.tables.is_empty());
    }
}
