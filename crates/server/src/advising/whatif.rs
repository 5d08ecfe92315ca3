//! `tavola whatif`: the recorded requests on a copy of a table with other keys.

use std::path::Path;

use anyhow::{anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tavola_advisor::{PartitionShare, Side, WhatIf, WhatIfReport, shown, shown_bytes, what_if};
use tavola_auth::Account;
use tavola_service::Service;

use super::text::{Paper, plain};
use super::{Advising, ask, printed, sources, terminal};

/// What the command asks of whoever answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct WhatIfQuestion {
    asked: WhatIf,
    account: Option<String>,
    is_json: bool,
    has_color: bool,
    width: usize,
}

/// The command line.
pub fn whatif_command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("whatif")
        .about("Replay the recorded requests of a table on a copy with other keys; the table is only read")
        .after_help(
            "A template is text with names of properties in braces: '{Department}', '{LastName}_{RowKey}'. PartitionKey, RowKey \
             and Timestamp are the old ones. {Age:05} pads a number to five digits, {Created:reverse} counts a time down, \
             {RowKey:mod8} gives one of eight buckets.",
        )
        .arg(text("table", "NAME", "The table").required(true))
        .arg(text("partition", "TEMPLATE", "The new PartitionKey").default_value("{PartitionKey}"))
        .arg(text("row", "TEMPLATE", "The new RowKey").default_value("{RowKey}"))
        .arg(
            Arg::new("index")
                .long("index")
                .action(ArgAction::SetTrue)
                .help("Add entities with these keys beside the table, and keep its own"),
        )
        .arg(text("account", "NAME", "The account [default: the only one with such a table]"))
        .arg(
            text("entities-max", "COUNT", "Entities that are copied, at most")
                .default_value("100000")
                .value_parser(clap::value_parser!(u64).range(1..=2_000_000)),
        )
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
}

/// Runs the command.
pub fn run(data_dir: &Path, matches: &ArgMatches) -> anyhow::Result<()> {
    let text = |name: &str| matches.get_one::<String>(name).cloned().unwrap_or_default();
    let (has_color, width) = terminal();
    let question = WhatIfQuestion {
        asked: WhatIf {
            table: text("table"),
            partition: text("partition"),
            row: text("row"),
            is_index: matches.get_flag("index"),
            entities_max: matches.get_one::<u64>("entities-max").copied().unwrap_or(1),
        },
        account: matches.get_one::<String>("account").cloned(),
        is_json: matches.get_flag("json"),
        has_color,
        width,
    };
    let answer = ask(data_dir, "whatif", &serde_json::to_value(&question)?)?;
    print!("{}", answer["output"].as_str().unwrap_or_default());
    Ok(())
}

/// Answers the command.
pub(super) async fn answer(
    advising: &Advising,
    service: &Service,
    accounts: &[Account],
    question: WhatIfQuestion,
) -> anyhow::Result<Value> {
    let asked = &question.asked;
    let names = advising.traffic.accounts_with(&asked.table);
    let meant: Vec<&Account> = accounts
        .iter()
        .filter(|account| names.iter().any(|name| name == account.name().as_str()))
        .filter(|account| question.account.as_deref().is_none_or(|own| own == account.name().as_str()))
        .collect();
    let account = match &meant[..] {
        [account] => account,
        [] => bail!("no requests to a table {} are recorded", asked.table),
        _ => bail!("several accounts have a table {}: name one with --account", asked.table),
    };
    let report = what_if(service, account, &advising.traffic, asked, &sources()).await;
    let report = report.map_err(|error| anyhow!("{error}"))?;
    let output = if question.is_json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        text(&report, Paper::new(question.has_color, question.width))
    };
    Ok(printed(output, Vec::new()))
}

fn text(report: &WhatIfReport, mut paper: Paper) -> String {
    let proposal = &report.proposal;
    let what = if proposal.is_index { "with an index" } else { "with other keys" };
    paper.line(&paper.bold(&format!("{} {what}: {} / {}", report.table, proposal.partition, proposal.row)));
    let part = if report.is_whole_table { "all" } else { "the first" };
    paper.line(&paper.dim(&format!(
        "{part} {} entities copied · {} requests replayed, for {} recorded",
        whole(report.entities),
        report.replayed,
        whole(report.recorded)
    )));
    paper.blank();
    write_sides(&mut paper, &report.before, &report.after);
    write_shapes(&mut paper, report);
    for (problem, what) in [
        (&report.collisions, "entities would get keys that another one has"),
        (&report.without_key, "entities would have no key"),
    ] {
        if problem.count > 0 {
            paper.blank();
            paper.line(&paper.bad(&format!("  {} {what}", problem.count)));
            for example in &problem.examples {
                paper.clipped(&format!("    {example}"));
            }
        }
    }
    paper.finish()
}

fn write_shapes(paper: &mut Paper, report: &WhatIfReport) {
    if report.shapes.is_empty() {
        return;
    }
    paper.blank();
    let shape_width =
        report.shapes.iter().map(|change| change.shape.chars().count()).max().unwrap_or(0).clamp(8, 48);
    paper.line(&paper.dim(&format!(
        "  {:<shape_width$}  {:>9}  {:<34}  rows read by one",
        "requests", "recorded", "plan"
    )));
    for change in &report.shapes {
        let shape: String = if change.shape.chars().count() > shape_width {
            plain(&change.shape).chars().take(shape_width - 1).chain(['…']).collect()
        } else {
            plain(&change.shape)
        };
        let plan = if change.plan_before == change.plan_after {
            change.plan_before.to_owned()
        } else {
            format!("{} → {}", change.plan_before, change.plan_after)
        };
        let rows = format!("{} → {}", shown(change.scanned_before), shown(change.scanned_after));
        let rows = match change.scanned_after.total_cmp(&change.scanned_before) {
            std::cmp::Ordering::Less => paper.good(&rows),
            std::cmp::Ordering::Greater => paper.bad(&rows),
            std::cmp::Ordering::Equal => rows,
        };
        let same = match (change.is_same_result, change.is_order_mended) {
            (true, _) => String::new(),
            (false, true) => paper.good(&format!(
                "  numbers in order: returns {} → {}",
                shown(change.returned_before),
                shown(change.returned_after)
            )),
            (false, false) => paper.bad("  other results"),
        };
        paper.line(&format!(
            "  {shape:<shape_width$}  {:>9}  {plan:<34}  {rows}{same}",
            whole(change.recorded),
        ));
    }
}

fn write_sides(paper: &mut Paper, before: &Side, after: &Side) {
    paper.line(&paper.dim(&format!("  {:<20}  {:>28}  {:>28}", "", "before", "after")));
    let partition = |partition: &Option<PartitionShare>| match partition {
        Some(partition) => {
            let key: String = plain(&partition.key).chars().take(20).collect();
            format!("{key} ({:.0} %)", partition.share * 100.0)
        }
        None => "–".to_owned(),
    };
    let rows = [
        ("rows read", shown(before.rows_scanned), shown(after.rows_scanned)),
        ("rows returned", shown(before.rows_returned), shown(after.rows_returned)),
        ("table scans", whole(before.plans.table_scan), whole(after.plans.table_scan)),
        ("partition scans", whole(before.plans.partition_scan), whole(after.plans.partition_scan)),
        ("hottest partition", partition(&before.hottest), partition(&after.hottest)),
        ("of the last requests", partition(&before.hottest_lately), partition(&after.hottest_lately)),
        ("largest partition", partition(&before.largest), partition(&after.largest)),
        ("partitions", whole(before.partitions), whole(after.partitions)),
        ("entities", whole(before.entities), whole(after.entities)),
        ("size", shown_bytes(number(before.bytes)), shown_bytes(number(after.bytes))),
    ];
    for (name, before, after) in rows {
        paper.line(&format!("  {name:<20}  {before:>28}  {after:>28}"));
    }
}

fn whole(count: u64) -> String {
    shown(number(count))
}

#[allow(clippy::cast_precision_loss, reason = "numbers to read")]
fn number(count: u64) -> f64 {
    count as f64
}
