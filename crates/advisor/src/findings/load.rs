//! Load that is too much for one partition or account, and inserts that all go to one end of the keys.

use super::propose::key_lines;
use super::{Seen, number, shown};
use crate::traffic::{ACCOUNT_REQUESTS_PER_SECOND, AccountRate, PARTITION_ENTITIES_PER_SECOND, Peak};
use crate::{Finding, Pattern, Proposal, Rule, Severity};

/// Seconds at half of the promise, from which a partition or an account is near it.
const BUSY_SECONDS_MIN: u64 = 10;
/// Seconds beyond the promise, from which it is more than a moment that clients get over by trying again.
const OVER_SECONDS_MIN: u64 = 3;
/// Inserts before anything is said about their order.
const INSERTS_MIN: u64 = 200;
/// The part of all inserts that goes to one end, and how often that end must have moved on.
const AT_END_MIN: f64 = 0.9;
const ADVANCES_MIN: u64 = 8;
/// Inserts in a second, from which their order is more than a note: a tenth of the promise.
const APPEND_WARNING_PER_SECOND: u64 = PARTITION_ENTITIES_PER_SECOND / 10;

pub(super) fn findings(seen: &Seen<'_>, found: &mut Vec<Finding>) {
    found.extend(hot_partition(seen));
    found.extend(append(seen));
}

fn severity(peak: &Peak) -> Option<Severity> {
    if peak.over_seconds >= OVER_SECONDS_MIN {
        return Some(Severity::Bad);
    }
    (peak.over_seconds > 0 || peak.busy_seconds >= BUSY_SECONDS_MIN).then_some(Severity::Warning)
}

fn hot_partition(seen: &Seen<'_>) -> Option<Finding> {
    let table = seen.table;
    let peaks = table.partitions.peaks_until_now();
    let (partition, peak, severity) = peaks
        .iter()
        .filter_map(|(partition, peak)| Some((partition, peak, severity(peak)?)))
        .max_by_key(|(_, peak, _)| peak.per_second)?;
    let mut finding = seen.finding(Rule::HotPartition, severity, Pattern::ChoosingPartitionKey);
    let total = table.partitions.totals.total().max(1);
    let own = table.partitions.totals.top().into_iter().find(|(name, _)| *name == partition);
    let own = own.map_or(0, |(_, hitter)| hitter.count);
    finding.title = format!(
        "{partition} takes {} entities a second; one partition is promised {}",
        shown(number(peak.per_second)),
        shown(number(PARTITION_ENTITIES_PER_SECOND))
    );
    finding.fact = format!(
        "{} % of the table's entities go through this partition. It was at half of the promise or more for {} s, beyond it \
         for {} s.{}",
        shown(number(own * 100 / total)),
        peak.busy_seconds,
        peak.over_seconds,
        match table.throttled {
            0 => String::new(),
            throttled => format!(" {} requests were refused for load.", shown(number(throttled))),
        },
    );
    // Each part well below half of the promise at the same load.
    let wanted = peak.per_second / (PARTITION_ENTITIES_PER_SECOND / 4) + 1;
    let buckets = wanted.next_power_of_two().clamp(4, 64);
    let proposal = Proposal {
        partition: format!("{{PartitionKey}}_{{RowKey:mod{buckets}}}"),
        row: "{RowKey}".to_owned(),
        is_index: false,
    };
    finding.advice = format!(
        "Spread the partition over {buckets}: add the number of a bucket, from a hash of the RowKey, to the PartitionKey. A \
         property that is in every query is better still, if there is one."
    );
    finding.price = format!(
        "Queries for the whole partition read {buckets} partitions, in parallel. A transaction covers one bucket only."
    );
    let mut sample = seen.sample(&[]);
    sample.partition.clone_from(partition);
    finding.keys = key_lines(&sample, &proposal);
    finding.what_if = Some(proposal);
    finding.requests_per_hour = seen.per_hour(own);
    Some(finding)
}

fn append(seen: &Seen<'_>) -> Option<Finding> {
    let order = &seen.table.inserts;
    if order.inserts < INSERTS_MIN {
        return None;
    }
    let is_append =
        number(order.at_end) >= number(order.inserts) * AT_END_MIN && order.advances_up >= ADVANCES_MIN;
    let is_prepend =
        number(order.at_front) >= number(order.inserts) * AT_END_MIN && order.advances_down >= ADVANCES_MIN;
    let (at_end, end) = match (is_append, is_prepend) {
        (true, _) => (order.at_end, "end"),
        (false, true) => (order.at_front, "front"),
        (false, false) => return None,
    };
    let peak =
        seen.table.partitions.peaks_until_now().values().map(|peak| peak.per_second).max().unwrap_or(0);
    let severity = match peak {
        peak if peak > PARTITION_ENTITIES_PER_SECOND => Severity::Bad,
        peak if peak >= APPEND_WARNING_PER_SECOND => Severity::Warning,
        _ => Severity::Info,
    };
    let mut finding = seen.finding(Rule::AppendOnly, severity, Pattern::PrependAppend);
    finding.title = format!("Inserts go to the {end} of the keys");
    finding.fact = format!(
        "{} of {} inserts went to the {} partition there was, at up to {} entities a second. All of them meet at one \
         partition server.",
        shown(number(at_end)),
        shown(number(order.inserts)),
        if end == "end" { "highest" } else { "lowest" },
        shown(number(peak)),
    );
    let (proposal, advice) = match seen.spreading_property() {
        Some(name) => (
            Proposal { partition: format!("{{{name}}}"), row: "{PartitionKey}_{RowKey}".to_owned(), is_index: false },
            format!("Put {name} first and the rest of the key second, so that inserts spread over its values."),
        ),
        None => (
            Proposal {
                partition: "{RowKey:mod8}_{PartitionKey}".to_owned(),
                row: "{RowKey}".to_owned(),
                is_index: false,
            },
            "Begin the PartitionKey with the number of a bucket, from a hash of the RowKey, so that inserts spread over \
             all of them."
                .to_owned(),
        ),
    };
    finding.keys = key_lines(&seen.sample(&[]), &proposal);
    finding.advice = advice;
    finding.price =
        "A query for a span of the old order reads one range in each of the new partitions.".to_owned();
    finding.what_if = Some(proposal);
    finding.requests_per_hour = seen.per_hour(order.inserts);
    Some(finding)
}

/// Accounts near or beyond what the service promises for one.
pub(super) fn account_findings(accounts: &[(String, AccountRate)], found: &mut Vec<Finding>) {
    for (account, rate) in accounts {
        let peak = rate.peak();
        let Some(severity) = severity(&peak) else { continue };
        let pattern = Pattern::ChoosingPartitionKey;
        found.push(Finding {
            id: format!("{}/{account}", Rule::HotAccount.as_str()),
            rule: Rule::HotAccount,
            severity,
            title: format!(
                "The account takes {} requests a second; one is promised {}",
                shown(number(peak.per_second)),
                shown(number(ACCOUNT_REQUESTS_PER_SECOND))
            ),
            fact: format!(
                "It was at half of the promise or more for {} s, beyond it for {} s.",
                peak.busy_seconds, peak.over_seconds
            ),
            pattern,
            guide_section: pattern.guide_section(),
            advice: "Spread the tables over several accounts, or send fewer and larger requests: transactions for writes, \
                     ranges for reads."
                .to_owned(),
            price: "A transaction and a query stay inside of one account.".to_owned(),
            account: account.clone(),
            table: String::new(),
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
        });
    }
}
