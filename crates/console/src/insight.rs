//! What the advisor says of the accounts that a session opens: findings, cost, heat map.
//!
//! The advisor has the traffic; what the tables hold comes from the last look at them (`sight.rs`).

use serde_json::{Value, json};
use tavola_advisor::{HeatKey, HeatMetric, HeatQuery, PriceTable, Sources, TableFacts, WhatIf, WhatIfError};
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
        let token = (inner.settings.token)();
        let accounts = inner.parts.accounts.current();
        let opened: Vec<_> =
            self.visit.session.opened(&accounts, token.as_deref()).into_iter().cloned().collect();
        drop(accounts);
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
        let mut findings = tavola_advisor::findings(&self.console.inner.parts.traffic, &facts);
        findings.retain(|finding| names.contains(&finding.account));
        Ok(json!({ "findings": serde_json::to_value(findings).unwrap_or_default() }))
    }

    /// What the traffic would cost.
    pub async fn cost(&self) -> Result<Value, ServiceError> {
        let (names, facts) = self.facts().await?;
        let mut report =
            tavola_advisor::cost(&self.console.inner.parts.traffic, &facts, &PriceTable::default());
        report.tables.retain(|table| names.contains(&table.account));
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
            entities_max: COPIED_ENTITIES_MAX,
        };
        let inner = &self.console.inner;
        let parts = &inner.parts;
        let sources = Sources { clock: parts.clock.clone(), random: parts.random.clone() };
        let Ok(_turn) = inner.tries.acquire().await else { return Err(ErrorCode::ServerBusy.into()) };
        let tried = tavola_advisor::what_if(&parts.service, &account, &parts.traffic, &asked, &sources).await;
        match tried {
            Ok(report) => Ok(serde_json::to_value(report).unwrap_or_default()),
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
