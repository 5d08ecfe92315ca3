//! What the advisor says of the accounts that a session opens: findings, cost, heat map.
//!
//! The advisor has the traffic; what the tables hold comes from the last look at them (`sight.rs`).

use serde_json::{Value, json};
use tavola_advisor::{
    CostReport, HeatKey, HeatMetric, HeatQuery, PriceTable, Sources, TableCost, TableFacts, WhatIf,
    WhatIfError, WhatIfReport,
};
use tavola_model::{DateTime, ErrorCode, ServiceError, TableName};

use crate::api::Asked;

/// Entities that a what-if copies: enough to see the difference, few enough to be held in memory.
const COPIED_ENTITIES_MAX: u64 = 50_000;
/// Rows and columns of a heat map.
const HEAT_ROWS_MAX: usize = 64;
const HEAT_COLUMNS_MAX: usize = 288;

impl Asked<'_> {
    /// Names of the accounts that the session opens, and what is known of their tables.
    async fn facts(&self) -> Result<(Vec<String>, TableFacts), ServiceError> {
        let inner = &self.console.inner;
        let opened = self.opened();
        let mut facts = TableFacts::default();
        for account in &opened {
            for table in self.tables(account).await? {
                if let Some(sight) = inner.sights.last(account.name(), &table) {
                    facts.tables.push(sight.fact(account.name(), &table));
                }
            }
        }
        Ok((opened.iter().map(|account| account.name().as_str().to_owned()).collect(), facts))
    }

    /// The findings, the worst first.
    pub async fn findings(&self) -> Result<Value, ServiceError> {
        let (names, facts) = self.facts().await?;
        let inner = &self.console.inner;
        let prices = &inner.settings.prices;
        let mut findings = tavola_advisor::findings_priced(&inner.parts.traffic, &facts, prices);
        findings.retain(|finding| names.contains(&finding.account));
        Ok(json!({ "findings": serde_json::to_value(findings).unwrap_or_default() }))
    }

    /// What the traffic would cost.
    pub async fn cost(&self) -> Result<Value, ServiceError> {
        let (names, facts) = self.facts().await?;
        let inner = &self.console.inner;
        let mut report = tavola_advisor::cost(&inner.parts.traffic, &facts, &inner.settings.prices);
        report.tables.retain(|table| names.contains(&table.account));
        // The sum was that of all accounts.
        let total = |table: &TableCost| table.storage_per_month + table.requests_per_month;
        report.total_per_month = report.tables.iter().map(total).sum();
        Ok(serde_json::to_value(report).unwrap_or_default())
    }

    /// Tries other keys on a copy of a table, one try at a time. The table is only read.
    pub async fn what_if(&self, wanted: &Value) -> Result<Value, ServiceError> {
        let text = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let account = self.account(&text("account"))?;
        let asked = WhatIf {
            table: text("table"),
            partition: text("partition"),
            row: text("row"),
            is_index: wanted.get("isIndex").and_then(Value::as_bool).unwrap_or(false),
            entities_max: wanted
                .get("entitiesMax")
                .and_then(Value::as_u64)
                .map_or(COPIED_ENTITIES_MAX, |max| max.min(COPIED_ENTITIES_MAX)),
        };
        let inner = &self.console.inner;
        let parts = &inner.parts;
        let sources = Sources { clock: parts.clock.clone(), random: parts.random.clone() };
        let (_, facts) = self.facts().await?;
        let Ok(_turn) = inner.tries.acquire().await else { return Err(ErrorCode::ServerBusy.into()) };
        let tried = tavola_advisor::what_if(&parts.service, &account, &parts.traffic, &asked, &sources).await;
        match tried {
            Ok(report) => {
                let prices = &inner.settings.prices;
                let cost = month(&report, &tavola_advisor::cost(&parts.traffic, &facts, prices), prices);
                let mut shown = serde_json::to_value(report).unwrap_or_default();
                shown["cost"] = cost;
                Ok(shown)
            }
            Err(WhatIfError::Service(error)) => Err(error),
            Err(error) => Err(ServiceError::with_message(ErrorCode::InvalidInput, error.to_string())),
        }
    }

    /// A part of the heat map of a table.
    pub fn heat(&self) -> Result<Value, ServiceError> {
        let account = self.account(self.text("account"))?;
        let table = TableName::parse(self.text("table"))?;
        let time = |name: &str| {
            let seconds: u64 = self.text(name).parse().map_err(|_| ErrorCode::InvalidInput)?;
            let ticks = seconds.checked_mul(10_000_000).ok_or(ErrorCode::InvalidInput)?;
            Ok::<_, ServiceError>(DateTime::from_unix_ticks(ticks))
        };
        let key = |partition: &str, row: &str| {
            let given = self.has(partition);
            given.then(|| HeatKey {
                partition: self.text(partition).to_owned(),
                row: self.text(row).to_owned(),
            })
        };
        let metric = match self.text("metric") {
            "bytes" => HeatMetric::Bytes,
            "latency" => HeatMetric::Latency,
            "rows-scanned" => HeatMetric::RowsScanned,
            _ => HeatMetric::Operations,
        };
        let query = HeatQuery {
            account: account.name().as_str().to_owned(),
            table: table.as_str().to_owned(),
            from: time("from")?,
            to: time("to")?,
            key_from: key("fromPartition", "fromRow"),
            key_to: key("toPartition", "toRow"),
            metric,
            rows_max: HEAT_ROWS_MAX,
            columns_max: HEAT_COLUMNS_MAX,
        };
        let view = self.console.inner.parts.heat.view(&query);
        Ok(serde_json::to_value(view).unwrap_or_default())
    }
}

/// What the table costs in a month, before and after. Each query costs as many requests as its rows take, and an index
/// that is not written in the same transaction costs each write once more.
fn month(report: &WhatIfReport, cost: &CostReport, prices: &PriceTable) -> Value {
    let is_tried = |table: &&TableCost| {
        table.account == report.account && table.table.eq_ignore_ascii_case(&report.table)
    };
    let Some(table) = cost.tables.iter().find(is_tried) else { return Value::Null };
    let pages = |rows: f64| (rows / prices.scan_rows_per_request.max(1.0)).ceil().max(1.0);
    let is_apart = report.proposal.is_index && report.proposal.partition != "{PartitionKey}";
    let is_write =
        |shape: &str| shape == "EntityGroupTransaction" || shape != "GetEntity" && shape.ends_with("Entity");
    let requests = table.shapes.iter().map(|shape| {
        match report.shapes.iter().find(|change| change.shape == shape.shape) {
            Some(change) => shape.cost_per_month * pages(change.scanned_after) / pages(change.scanned_before),
            None if is_apart && is_write(&shape.shape) => shape.cost_per_month * 2.0,
            None => shape.cost_per_month,
        }
    });
    #[allow(clippy::cast_precision_loss, reason = "a share of money")]
    let growth = report.after.bytes as f64 / report.before.bytes.max(1) as f64;
    json!({
        "currency": cost.currency,
        "before": table.storage_per_month + table.requests_per_month,
        "after": table.storage_per_month * growth + requests.sum::<f64>(),
    })
}
