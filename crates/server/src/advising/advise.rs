//! `tavola advise`: findings and cost, as text or JSON, and as a gate of a build.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tavola_advisor::{
    CostReport, Finding, PriceTable, Rule, Severity, Summary, cost, findings_priced, gather,
};
use tavola_auth::Account;
use tavola_service::Service;

use super::text::{Paper, plain};
use super::{Advising, ask, prices, printed, terminal};

/// The exit code when a finding is there that `--fail-on` names. 1 is a failure of the command, 2 a wrong command line.
pub const GATE_CODE: u8 = 3;
/// Entities that are read of each table, for its size and for examples.
const ENTITIES_MAX: u64 = 20_000;

/// What the command asks of whoever answers.
#[derive(Debug, Serialize, Deserialize)]
pub struct AdviseQuestion {
    table: Option<String>,
    account: Option<String>,
    prices: PriceTable,
    is_json: bool,
    has_color: bool,
    width: usize,
    /// The data folder as the command line names it, for commands that are printed.
    data: String,
}

/// What makes the command fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gate {
    /// A finding of this rule.
    Rule(Rule),
    /// A finding this bad, or worse.
    Severity(Severity),
}

impl Gate {
    /// A rule, `any`, `warning` or `bad`.
    pub fn parse(word: &str) -> anyhow::Result<Self> {
        match (word, Rule::parse(word)) {
            (_, Some(rule)) => Ok(Self::Rule(rule)),
            ("any", _) => Ok(Self::Severity(Severity::Info)),
            ("warning", _) => Ok(Self::Severity(Severity::Warning)),
            ("bad", _) => Ok(Self::Severity(Severity::Bad)),
            _ => {
                let words: Vec<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
                bail!("--fail-on knows no {word}; it takes any, warning, bad, {}", words.join(", "))
            }
        }
    }

    /// Whether it is shut by what was found: rule and severity as `rule:severity`.
    fn is_shut_by(&self, found: &str) -> bool {
        let (rule, severity) = found.split_once(':').unwrap_or((found, ""));
        match self {
            Self::Rule(own) => own.as_str() == rule,
            Self::Severity(least) => rank(severity) >= rank(severity_word(*least)),
        }
    }
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Bad => "bad",
    }
}

fn rank(word: &str) -> usize {
    ["note", "warning", "bad"].iter().position(|known| *known == word).unwrap_or(0)
}

/// The command line.
pub fn advise_command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("advise")
        .about("Review the keys of the tables by the recorded traffic, with costs")
        .after_help(
            "Exit codes: 0 nothing that --fail-on names, 1 the command failed, 2 a wrong command line, 3 a finding that \
             --fail-on names.\nThe rules are in docs/advisor.md.",
        )
        .arg(text("table", "NAME", "Only this table"))
        .arg(text("account", "NAME", "Only this account"))
        .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print JSON"))
        .arg(
            text("fail-on", "RULE", "Exit with 3 if there is such a finding: a rule, any, warning or bad; repeatable")
                .action(ArgAction::Append)
                .value_delimiter(','),
        )
        .arg(
            text("prices", "FILE", "File of prices (`tavola prices` prints one to edit)")
                .value_parser(clap::value_parser!(PathBuf)),
        )
}

/// Runs the command.
pub fn run(data_dir: &Path, matches: &ArgMatches) -> anyhow::Result<ExitCode> {
    let gates: Vec<Gate> = matches
        .get_many::<String>("fail-on")
        .into_iter()
        .flatten()
        .map(|word| Gate::parse(word))
        .collect::<anyhow::Result<_>>()?;
    let (has_color, width) = terminal();
    let question = AdviseQuestion {
        table: matches.get_one::<String>("table").cloned(),
        account: matches.get_one::<String>("account").cloned(),
        prices: prices(matches.get_one::<PathBuf>("prices"))?,
        is_json: matches.get_flag("json"),
        has_color,
        width,
        data: data_dir.display().to_string(),
    };
    let answer = ask(data_dir, "advise", &serde_json::to_value(&question)?)?;
    print!("{}", answer["output"].as_str().unwrap_or_default());
    let found: Vec<&str> =
        answer["rules"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let is_shut = gates.iter().any(|gate| found.iter().any(|found| gate.is_shut_by(found)));
    Ok(if is_shut { ExitCode::from(GATE_CODE) } else { ExitCode::SUCCESS })
}

/// Answers the command.
pub(super) async fn answer(
    advising: &Advising,
    service: &Service,
    accounts: &[Account],
    question: AdviseQuestion,
) -> anyhow::Result<Value> {
    let facts = gather(service, accounts, ENTITIES_MAX).await?;
    let is_meant = |account: &str, table: &str| {
        question.account.as_deref().is_none_or(|own| own == account)
            && question.table.as_deref().is_none_or(|own| own.eq_ignore_ascii_case(table))
    };
    let mut found = findings_priced(&advising.traffic, &facts, &question.prices);
    found.retain(|finding| is_meant(&finding.account, &finding.table));
    let mut costs = cost(&advising.traffic, &facts, &question.prices);
    costs.retain(|table| is_meant(&table.account, &table.table));
    let output = if question.is_json {
        format!("{:#}\n", json!({ "summary": advising.traffic.summary(), "findings": found, "cost": costs }))
    } else {
        let paper = Paper::new(question.has_color, question.width);
        text(&found, &costs, &advising.traffic.summary(), &question.data, paper)
    };
    let rules: Vec<String> = found
        .iter()
        .map(|finding| format!("{}:{}", finding.rule.as_str(), severity_word(finding.severity)))
        .collect();
    Ok(printed(output, rules))
}

fn text(found: &[Finding], costs: &CostReport, summary: &Summary, data: &str, mut paper: Paper) -> String {
    let asked: Vec<&str> = costs
        .tables
        .iter()
        .filter(|table| !table.shapes.is_empty())
        .map(|table| table.table.as_str())
        .collect();
    if asked.is_empty() {
        paper.line("No requests are recorded yet.");
        return paper.finish();
    }
    let is_quiet = |table: &&str| !found.iter().any(|finding| finding.table == **table);
    let quiet: Vec<&str> = asked.iter().copied().filter(|table| is_quiet(table)).collect();
    let vain = match summary.rows_scanned {
        0 => String::new(),
        scanned => {
            let vain = scanned.saturating_sub(summary.rows_returned) * 100 / scanned;
            format!("{vain} % of rows read are thrown away · ")
        }
    };
    let observed = format!("{vain}from {} of requests", hours(costs.observed_hours));
    let count = match found.len() {
        0 => "No findings".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    paper.line(&format!("{} · {observed}", paper.bold(&count)));
    for (rank, finding) in found.iter().enumerate() {
        paper.blank();
        write_finding(&mut paper, rank + 1, finding, &costs.currency);
        if let Some(command) = try_command(finding, data) {
            paper.unwrapped("try", &command);
        }
    }
    if !quiet.is_empty() {
        paper.blank();
        paper.wrapped("", &format!("Nothing to improve in {}.", quiet.join(", ")));
    }
    write_costs(&mut paper, costs);
    paper.finish()
}

fn write_finding(paper: &mut Paper, rank: usize, finding: &Finding, currency: &str) {
    let severity = paper.severity(finding.severity, severity_word(finding.severity));
    let title = paper.bold(&finding.title);
    paper.line(&format!("{rank:>2}  {title}"));
    let place = plain(if finding.table.is_empty() { &finding.account } else { &finding.table });
    let plan = finding.plan.map(|plan| format!(" · {plan}")).unwrap_or_default();
    paper.line(&format!("    {severity} · {} · {place}{plan}", finding.rule.as_str()));
    paper.wrapped("fact", &finding.fact);
    if let Some(example) = &finding.example {
        let rows = match example.rows_scanned {
            0 => String::new(),
            scanned => format!(
                " ({scanned} rows read, {} returned, {:.1} ms)",
                example.rows_returned, example.total_ms
            ),
        };
        paper.wrapped("example", &format!("{}{rows}", example.request));
    }
    paper.wrapped("fix", &format!("{}: {}", finding.guide_section, finding.advice));
    for (index, line) in finding.keys.iter().enumerate() {
        paper.keys(if index == 0 { "keys" } else { "" }, line);
    }
    for gain in &finding.gains {
        paper.wrapped("gain", &gain.to_string());
    }
    paper.wrapped("price", &finding.price);
    if let Some(cost) = finding.cost_per_month.filter(|cost| *cost > 0.0) {
        paper.wrapped("cost", &format!("{} a month for these requests", money(currency, cost)));
    }
}

/// The command that tries the keys of a finding.
fn try_command(finding: &Finding, data: &str) -> Option<String> {
    let proposal = finding.what_if.as_ref()?;
    let index = if proposal.is_index { " --index" } else { "" };
    Some(format!(
        "tavola whatif --data {} --account {} --table {}{index} --partition {} --row {}",
        for_shell(data),
        for_shell(&finding.account),
        for_shell(&finding.table),
        quoted(&proposal.partition),
        quoted(&proposal.row),
    ))
}

/// A word of a command line, in quotes if a shell would read it otherwise.
fn for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quoted(word) }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn write_costs(paper: &mut Paper, costs: &CostReport) {
    paper.blank();
    let about = |is_exact: bool, amount: String| if is_exact { amount } else { format!("≈ {amount}") };
    let total = about(costs.is_exact, money(&costs.currency, costs.total_per_month));
    paper.line(&format!("{} {total} a month on the real service", paper.bold("Cost")));
    if let Some(date) = costs.default_prices_of {
        let note = format!(
            "Based on the default prices of {date}: check them against what you pay (`tavola prices` prints them to edit)."
        );
        paper.wrapped("", &note);
    }
    let name_width =
        costs.tables.iter().map(|table| table.table.chars().count()).max().unwrap_or(0).clamp(5, 32);
    paper.line(&paper.dim(&format!(
        "    {:name_width$}  {:>12}  {:>12}  most expensive requests",
        "table", "storage", "requests"
    )));
    for table in &costs.tables {
        let storage = about(table.is_exact, money(&costs.currency, table.storage_per_month));
        let most_expensive = table.shapes.first().map(|shape| {
            let wasted = match shape.wasted_per_month {
                wasted if wasted > 0.0 => format!(", {} of it wasted", money(&costs.currency, wasted)),
                _ => String::new(),
            };
            format!("{} ({}{wasted})", shape.shape, money(&costs.currency, shape.cost_per_month))
        });
        paper.clipped(&format!(
            "    {:name_width$}  {storage:>12}  {:>12}  {}",
            table.table,
            money(&costs.currency, table.requests_per_month),
            most_expensive.unwrap_or_default(),
        ));
    }
}

fn money(currency: &str, amount: f64) -> String {
    match amount {
        amount if amount < 0.000_005 => format!("{currency} 0"),
        amount if amount < 0.01 => format!("{currency} {amount:.5}"),
        amount => format!("{currency} {amount:.2}"),
    }
}

fn hours(hours: f64) -> String {
    match hours {
        hours if hours < 1.0 => format!("{:.0} min", (hours * 60.0).max(1.0)),
        hours if hours < 48.0 => format!("{hours:.1} h"),
        hours => format!("{:.1} days", hours / 24.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_shut_by_its_rule_or_by_what_is_as_bad() {
        let gate = |word: &str| Gate::parse(word).unwrap();
        assert!(gate("table-scan").is_shut_by("table-scan:note"));
        assert!(!gate("table-scan").is_shut_by("partition-scan:bad"));
        assert!(gate("any").is_shut_by("append-only:note"));
        assert!(
            gate("warning").is_shut_by("append-only:bad") && !gate("warning").is_shut_by("append-only:note")
        );
        assert!(!gate("bad").is_shut_by("append-only:warning"));
        assert!(Gate::parse("scan").unwrap_err().to_string().contains("table-scan"));
    }

    #[test]
    fn a_word_reaches_the_command_as_it_is() {
        assert_eq!(for_shell("/var/lib/tavola-1.0"), "/var/lib/tavola-1.0");
        assert_eq!(for_shell("my data"), "'my data'");
        assert_eq!(for_shell("it's"), r"'it'\''s'");
        assert_eq!(for_shell(""), "''");
    }

    #[test]
    fn an_estimated_cost_says_so_in_its_line_and_in_the_total() {
        let table = |name: &str, is_exact| tavola_advisor::TableCost {
            table: name.to_owned(),
            is_exact,
            storage_per_month: 2.0,
            ..tavola_advisor::TableCost::default()
        };
        let costs = CostReport {
            currency: "$".to_owned(),
            total_per_month: 4.0,
            tables: vec![table("small", true), table("large", false)],
            ..CostReport::default()
        };
        let mut paper = Paper::new(false, 80);
        write_costs(&mut paper, &costs);
        let text = paper.finish();
        assert!(text.contains("Cost ≈ $ 4.00 a month"), "{text}");
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
        assert!(line("large").contains("≈ $ 2.00") && !line("small").contains('≈'), "{text}");
    }

    #[test]
    fn small_money_is_not_shown_as_nothing() {
        assert_eq!(
            [money("$", 0.0), money("$", 0.000_36), money("€", 12.5)],
            ["$ 0", "$ 0.00036", "€ 12.50"]
        );
    }
}
