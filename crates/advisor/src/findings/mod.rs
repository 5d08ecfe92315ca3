//! The rules of the table design guide, held against the traffic.
//!
//! A rule has a threshold (docs/advisor.md lists them) and is silent below it. Each finding names the pattern of the
//! guide that fixes it, and keys built from the table's own properties and values.
//!
//! Findings are ranked by severity, then by the rows that are read for each one returned, then by what their requests cost,
//! then by their number.

mod advice;
mod gains;
mod load;
pub(crate) mod propose;
mod queries;
#[cfg(test)]
mod tests;
mod writes;

use crate::traffic::TableTraffic;
use crate::{CostReport, Finding, Pattern, PriceTable, Rule, Severity, TableFact, TableFacts, Traffic, cost};

/// What the traffic shows to be costly or wrong, the worst first, priced by the default prices. Nothing for a healthy
/// workload.
pub fn findings(traffic: &Traffic, facts: &TableFacts) -> Vec<Finding> {
    findings_priced(traffic, facts, &PriceTable::default())
}

/// The same, with prices of the user.
pub fn findings_priced(traffic: &Traffic, facts: &TableFacts, prices: &PriceTable) -> Vec<Finding> {
    let mut found = Vec::new();
    for table in traffic.tables() {
        let seen = Seen { fact: facts.of(&table.account, &table.table), table: &table };
        queries::findings(&seen, &mut found);
        load::findings(&seen, &mut found);
        writes::findings(&seen, &mut found);
    }
    load::account_findings(&traffic.accounts(), &mut found);
    let costs = cost(traffic, facts, prices);
    for finding in &mut found {
        finding.cost_per_month = cost_of(finding, &costs);
    }
    found.sort_by(|left, right| {
        let cost = |finding: &Finding| finding.cost_per_month.unwrap_or_default();
        let by_severity = right.severity.cmp(&left.severity);
        by_severity
            .then_with(|| right.weight.total_cmp(&left.weight))
            .then_with(|| cost(right).total_cmp(&cost(left)))
            .then_with(|| right.requests_per_hour.total_cmp(&left.requests_per_hour))
    });
    found
}

fn cost_of(finding: &Finding, costs: &CostReport) -> Option<f64> {
    let shape = finding.shape.as_deref()?;
    costs.shape(&finding.account, &finding.table, shape).map(|cost| cost.cost_per_month)
}

/// What is known of one table.
struct Seen<'a> {
    table: &'a TableTraffic,
    fact: Option<&'a TableFact>,
}

impl Seen<'_> {
    /// A finding about this table, with its texts still to be written.
    fn finding(&self, rule: Rule, severity: Severity, pattern: Pattern) -> Finding {
        Finding {
            id: format!("{}/{}/{}", rule.as_str(), self.table.account, self.table.table.to_ascii_lowercase()),
            rule,
            severity,
            title: String::new(),
            fact: String::new(),
            pattern,
            guide_section: pattern.guide_section(),
            advice: String::new(),
            price: String::new(),
            account: self.table.account.clone(),
            table: self.table.table.clone(),
            shape: None,
            plan: None,
            example: None,
            keys: Vec::new(),
            what_if: None,
            gains: Vec::new(),
            requests_per_hour: 0.0,
            rows_scanned: 0,
            rows_returned: 0,
            weight: 0.0,
            cost_per_month: None,
        }
    }

    /// Partitions that were asked for, as far as they are counted.
    fn partitions(&self) -> usize {
        self.table.partitions.totals.top().len()
    }

    fn per_hour(&self, count: u64) -> f64 {
        number(count) / self.table.hours()
    }
}

#[allow(clippy::cast_precision_loss, reason = "numbers to compare and to read")]
fn number(count: u64) -> f64 {
    count as f64
}

/// A number as people write it: 128,000, or 3.2 if it is small and not whole.
pub fn shown(value: f64) -> String {
    if value < 10.0 && (value - value.round()).abs() > 0.05 {
        return format!("{value:.1}");
    }
    let digits = format!("{:.0}", value.max(0.0));
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes as people write them.
pub fn shown_bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let mut value = bytes;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{value:.0} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
