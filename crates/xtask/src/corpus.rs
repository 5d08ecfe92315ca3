//! Recorded exchanges of the real service, replayed against ours.
//!
//! A session is strict when nothing differs, and lenient when status, code and values agree. Below the floors
//! the step fails; and each session that is not even lenient stands in `docs/compatibility.md` with its reason,
//! where none may stand that has come to agree.

use std::collections::BTreeMap;
use std::process::Command;

use clap::ValueEnum;
use serde_json::Value;
use tavola_testkit::{ServerOptions, TestServer};

use crate::Engine;
use crate::cluster;
use crate::markers;
use crate::programs::{root, run, server_binary, shared};
use crate::step::{NO_NAMES, Outcome, Select, Server, Step, Tally};

pub const TABLES: Step = Step {
    name: "recorded table sessions",
    server: Server::Needed,
    run: |select| check(&TABLE_CORPUS, select),
    has: |name| has_session(&TABLE_CORPUS, name),
};
pub const QUEUES: Step = Step {
    name: "recorded queue sessions",
    server: Server::Needed,
    run: |select| check(&QUEUE_CORPUS, select),
    has: |name| has_session(&QUEUE_CORPUS, name),
};

pub const BLOBS: Step = Step {
    name: "recorded blob sessions",
    server: Server::Needed,
    run: |select| check(&BLOB_CORPUS, select),
    has: |name| has_session(&BLOB_CORPUS, name),
};

/// A service that was recorded.
#[derive(Clone, Copy, ValueEnum)]
pub enum Recorded {
    Tables,
    Queues,
    Blobs,
}

/// The step of `cargo xtask corpus`.
pub fn step(service: Recorded, write_list: bool, engine: Engine) -> Step {
    match (service, write_list, engine) {
        (Recorded::Tables, false, Engine::Local) => TABLES,
        (Recorded::Queues, false, Engine::Local) => QUEUES,
        (Recorded::Blobs, false, Engine::Local) => BLOBS,
        (Recorded::Tables, true, _) => Step { run: |_| write(&TABLE_CORPUS), has: NO_NAMES, ..TABLES },
        (Recorded::Queues, true, _) => Step { run: |_| write(&QUEUE_CORPUS), has: NO_NAMES, ..QUEUES },
        (Recorded::Blobs, true, _) => Step { run: |_| write(&BLOB_CORPUS), has: NO_NAMES, ..BLOBS },
        (Recorded::Tables, false, Engine::Cql) => Step {
            name: "recorded table sessions, on Cassandra",
            run: |select| check_on_cluster(&TABLE_CORPUS, select),
            ..TABLES
        },
        (Recorded::Queues, false, Engine::Cql) => Step {
            name: "recorded queue sessions, on Cassandra",
            run: |select| check_on_cluster(&QUEUE_CORPUS, select),
            ..QUEUES
        },
        (Recorded::Blobs, false, Engine::Cql) => Step {
            name: "recorded blob sessions, on Cassandra",
            run: |select| check_on_cluster(&BLOB_CORPUS, select),
            ..BLOBS
        },
    }
}

/// The recordings of one service.
struct Corpus {
    /// The replayer's word for the service.
    service: &'static str,
    /// The file under `corpus/`, which is also the name of the part of the document.
    name: &'static str,
    /// How many sessions must agree.
    lenient_min: u32,
    /// How many sessions must not differ in anything.
    strict_min: u32,
    /// Where the server is to be reached.
    endpoint: fn(&TestServer) -> &str,
}

const TABLE_CORPUS: Corpus = Corpus {
    service: "table",
    name: "tables",
    // Three of the four that differ list what the recorded account held, which varies from run to run.
    lenient_min: 631,
    strict_min: 626,
    endpoint: TestServer::table_endpoint,
};

const QUEUE_CORPUS: Corpus = Corpus {
    service: "queue",
    name: "queues",
    lenient_min: 283,
    strict_min: 282,
    endpoint: TestServer::queue_endpoint,
};

const BLOB_CORPUS: Corpus = Corpus {
    service: "blob",
    name: "blobs",
    lenient_min: 358,
    strict_min: 350,
    endpoint: TestServer::blob_endpoint,
};

const DOCUMENT: &str = "docs/compatibility.md";
const HEADING: &str = "| session | first difference | reason |\n|---|---|---|";
/// What `--write` puts where a person must write the reason.
const UNEXPLAINED: &str = "unexplained";
/// How a reason begins where the session agrees in some runs and not in others.
const VARIES: &str = "varies: ";

fn check(corpus: &Corpus, select: &Select) -> Outcome {
    check_with(corpus, select, Vec::new())
}

/// The answers are the same whatever the store, so the same differences are known.
fn check_on_cluster(corpus: &Corpus, select: &Select) -> Outcome {
    cluster::with_nodes(1, |nodes| check_with(corpus, select, cluster::fresh_keyspace(nodes)?))
}

fn check_with(corpus: &Corpus, select: &Select, arguments: Vec<String>) -> Outcome {
    let report = match replay(corpus, select, arguments)? {
        Replayed::Report(report) => report,
        Replayed::Missing(missing) => return Ok(Tally::skip(missing)),
    };
    let (listed, missing) = match listed(corpus) {
        Ok(listed) => (listed, None),
        Err(missing) => (BTreeMap::new(), Some(missing)),
    };
    let mut tally = grade(corpus, select, &report, &listed)?;
    if let Some(missing) = missing {
        tally.check(Err(missing));
    }
    Ok(tally)
}

fn write(corpus: &Corpus) -> Outcome {
    let report = match replay(corpus, &Select::All, Vec::new())? {
        Replayed::Report(report) => report,
        Replayed::Missing(missing) => return Ok(Tally::skip(missing)),
    };
    let path = root().join(DOCUMENT);
    let document = std::fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT} ({error})"))?;
    let known = listed(corpus)?;
    let mut lines = vec![HEADING.to_owned()];
    for session in failing(&report) {
        let reason = known.get(&session.name).map_or(UNEXPLAINED, |(_, reason)| reason);
        lines.push(format!("| {} | {} | {reason} |", session.name, session.difference));
    }
    let part = part_name(corpus);
    let document = markers::with_part(&document, &part, &lines.join("\n"))
        .ok_or_else(|| format!("{DOCUMENT} has no part {part:?}: add its markers"))?;
    std::fs::write(&path, document).map_err(|error| format!("{DOCUMENT} ({error})"))?;
    grade(corpus, &Select::All, &report, &listed(corpus)?)
}

fn part_name(corpus: &Corpus) -> String {
    format!("corpus-{}", corpus.name)
}

/// Whether a recorded session has this in its name.
fn has_session(corpus: &Corpus, name: &str) -> bool {
    let Ok(path) = shared(&format!("corpus/{}.jsonl", corpus.name)) else { return false };
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .any(|session| session["name"].as_str().is_some_and(|found| found.contains(name)))
}

/// What became of a replay.
enum Replayed {
    Report(Value),
    /// There is nothing to replay; the text says what is missing.
    Missing(String),
}

/// Replays the recordings against a server with these arguments.
fn replay(corpus: &Corpus, select: &Select, arguments: Vec<String>) -> Result<Replayed, String> {
    let name = corpus.name;
    let (replayer, recorded) = match (shared("replay/replay.py"), shared(&format!("corpus/{name}.jsonl"))) {
        (Ok(replayer), Ok(recorded)) => (replayer, recorded),
        (Err(missing), _) | (_, Err(missing)) => return Ok(Replayed::Missing(missing)),
    };
    let options = ServerOptions { binary: Some(server_binary()), arguments, ..ServerOptions::default() };
    let server = TestServer::start_with(&options).map_err(|error| error.to_string())?;
    let report_path = root().join(format!("target/corpus-{name}.json"));
    let mut command = Command::new("python3");
    command.arg(replayer).args(["--service", corpus.service, "--endpoint", (corpus.endpoint)(&server)]);
    command.arg("--corpus").arg(recorded).arg("--report").arg(&report_path);
    if let Some(name) = select.name() {
        command.args(["--only", name]);
    }
    run(&mut command)?.check()?;
    let text = std::fs::read_to_string(&report_path).map_err(|error| error.to_string())?;
    let report =
        serde_json::from_str(&text).map_err(|error| format!("the report is unreadable ({error})"))?;
    Ok(Replayed::Report(report))
}

fn grade(
    corpus: &Corpus,
    select: &Select,
    report: &Value,
    listed: &BTreeMap<String, (usize, String)>,
) -> Outcome {
    let count = |name: &str| report[name].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let sent = count("sessions") - count("skipped");
    if sent == 0 {
        return Err("no session was sent".to_owned());
    }
    let (strict, lenient) = (count("strict"), count("lenient"));
    let mut tally = Tally::default();
    tally.note(format!(
        "{sent} sessions sent: {strict} strict, {lenient} lenient; {} cannot be sent",
        count("skipped")
    ));
    if *select == Select::All {
        tally.check(floor("lenient", lenient, corpus.lenient_min));
        tally.check(floor("strict", strict, corpus.strict_min));
    }
    tally.passed += usize::try_from(count("lenient")).unwrap_or(0);
    let mut unseen = listed.clone();
    for session in failing(report) {
        tally.check(match unseen.get_mut(&session.name) {
            Some((times, reason)) if *times > 0 && !reason.is_empty() && reason != UNEXPLAINED => {
                *times -= 1;
                Ok(())
            }
            _ => Err(format!("{} ({}) is not explained in {DOCUMENT}", session.name, session.difference)),
        });
    }
    // Of a part, what was not sent may be listed.
    let unseen = if *select == Select::All { unseen } else { BTreeMap::new() };
    for (name, (times, reason)) in unseen {
        if times > 0 && reason != UNEXPLAINED && !reason.starts_with(VARIES) {
            tally.check(Err(format!("{name} agrees now: take it out of {DOCUMENT}")));
        }
    }
    Ok(tally)
}

fn floor(grade: &str, count: u32, min: u32) -> Result<(), String> {
    if count >= min { Ok(()) } else { Err(format!("{grade} are {count} sessions, fewer than {min}")) }
}

/// A session that is not even lenient.
struct Failing {
    name: String,
    difference: String,
}

fn failing(report: &Value) -> Vec<Failing> {
    let mut failing: Vec<Failing> = report["results"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|result| result["outcome"] == "failed")
        .map(|result| {
            let first = &result["first"];
            let text = |name: &str| match &first[name] {
                Value::String(text) => text.clone(),
                Value::Null => "nothing".to_owned(),
                other => other.to_string(),
            };
            let difference = format!(
                "{}: {} {}, expected {}, received {}",
                text("operation"),
                text("class"),
                text("where"),
                text("expected"),
                text("received")
            );
            Failing { name: cell(result["name"].as_str().unwrap_or_default()), difference: cell(&difference) }
        })
        .collect();
    failing.sort_by(|one, other| one.name.cmp(&other.name));
    failing
}

/// Text that fits into a cell of a table.
fn cell(text: &str) -> String {
    const CHARACTERS_MAX: usize = 160;
    let text =
        text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "/").replace(['<', '>'], "'");
    text.chars().take(CHARACTERS_MAX).collect()
}

/// The listed sessions: how often each, and why.
fn listed(corpus: &Corpus) -> Result<BTreeMap<String, (usize, String)>, String> {
    let path = root().join(DOCUMENT);
    let document =
        std::fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT} must be there ({error})"))?;
    let part = part_name(corpus);
    let list = markers::part(&document, &part)
        .ok_or_else(|| format!("{DOCUMENT} has no part {part:?}: add its markers"))?;
    Ok(parse_list(list))
}

fn parse_list(part: &str) -> BTreeMap<String, (usize, String)> {
    let mut listed: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for line in part.lines().skip(HEADING.lines().count()) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if let [name, _, reason] = cells.as_slice() {
            let entry = listed.entry((*name).to_owned()).or_insert((0, (*reason).to_owned()));
            entry.0 += 1;
        }
    }
    listed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcomes: &[&str]) -> Value {
        let count = |outcome: &str| outcomes.iter().filter(|one| **one == outcome).count();
        let results: Vec<Value> = outcomes
            .iter()
            .enumerate()
            .map(|(index, outcome)| serde_json::json!({"name": format!("s{index}"), "outcome": outcome}))
            .collect();
        serde_json::json!({
            "sessions": outcomes.len(), "strict": count("strict"), "lenient": count("strict") + count("lenient"),
            "skipped": count("skipped"), "results": results,
        })
    }

    fn check_grade(outcomes: &[&str], list: &str, expected: (usize, &[&str])) {
        let listed = parse_list(&format!("{HEADING}\n{list}"));
        let agreeing = |outcome: &&&str| **outcome == "strict" || **outcome == "lenient";
        let lenient_min = u32::try_from(outcomes.iter().filter(agreeing).count()).unwrap();
        let corpus = Corpus { lenient_min, strict_min: 1, ..TABLE_CORPUS };
        let tally = grade(&corpus, &Select::All, &report(outcomes), &listed).unwrap();
        assert_eq!(tally.passed, expected.0, "{:?}", tally.failures);
        assert_eq!(tally.failures.len(), expected.1.len(), "{:?}", tally.failures);
        for (failure, part) in tally.failures.iter().zip(expected.1) {
            assert!(failure.contains(part), "{failure}");
        }
    }

    #[test]
    fn agreeing_sessions_above_the_floors_pass() {
        check_grade(&["strict", "strict", "skipped"], "", (4, &[]));
    }

    #[test]
    fn too_few_agreeing_sessions_fail() {
        check_grade(&["lenient", "lenient"], "", (3, &["strict are 0 sessions, fewer than 1"]));
        let one_short = Corpus { lenient_min: 3, strict_min: 2, ..TABLE_CORPUS };
        let tally = grade(&one_short, &Select::All, &report(&["strict"; 2]), &BTreeMap::new()).unwrap();
        assert_eq!(tally.failures, ["lenient are 2 sessions, fewer than 3"]);
    }

    #[test]
    fn a_part_has_no_floor_and_may_leave_listed_sessions_out() {
        let listed = parse_list(&format!("{HEADING}\n| s7 | status | a reason |"));
        let part = Select::Named("s0".to_owned());
        let tally = grade(&TABLE_CORPUS, &part, &report(&["lenient"]), &listed).unwrap();
        assert_eq!((tally.passed, tally.failures.len()), (1, 0));
    }

    #[test]
    fn a_session_that_fails_must_be_listed_with_a_reason() {
        let mut outcomes = vec!["strict"; 99];
        outcomes.push("failed");
        check_grade(&outcomes, "| s99 | status | a reason |", (102, &[]));
        check_grade(&outcomes, "", (101, &["s99"]));
        check_grade(&outcomes, "| s99 | status | unexplained |", (101, &["s99"]));
        check_grade(&outcomes, "| s99 | status |  |", (101, &["s99", "agrees now"]));
    }

    #[test]
    fn a_session_that_agrees_must_not_be_listed() {
        check_grade(&["strict"], "| s0 | status | a reason |", (3, &["agrees now"]));
        check_grade(&["strict"], "| s0 | status | varies: a reason |", (3, &[]));
    }
}
