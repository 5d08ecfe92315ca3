//! What the observed traffic and the stored bytes cost in a month on the real service.

use serde::{Deserialize, Serialize};

use crate::{TableFacts, Traffic};

/// Prices that the user can edit.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct PriceTable {
    /// The sign of the currency.
    pub currency: String,
}

impl Default for PriceTable {
    fn default() -> Self {
        Self { currency: "$".to_owned() }
    }
}

/// What everything costs in a month.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CostReport {
    /// The sign of the currency.
    pub currency: String,
    /// All tables.
    pub total_per_month: f64,
    /// For how long the traffic was observed, in hours.
    pub observed_hours: f64,
    /// The dearest first.
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
    /// For its stored bytes.
    pub storage_per_month: f64,
    /// For its requests.
    pub requests_per_month: f64,
    /// The shapes of its requests, the dearest first.
    pub shapes: Vec<ShapeCost>,
}

/// What requests of one shape cost in a month.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ShapeCost {
    /// The shape.
    pub shape: String,
    /// Requests in a month, at the observed rate.
    pub requests: f64,
    /// Their cost.
    pub cost_per_month: f64,
    /// The cost of one.
    pub cost_each: f64,
    /// Of the cost, what rows cost that were read and not returned.
    pub wasted_per_month: f64,
}

/// Prices the traffic.
pub fn cost(_traffic: &Traffic, _facts: &TableFacts, prices: &PriceTable) -> CostReport {
    CostReport { currency: prices.currency.clone(), ..CostReport::default() }
}
