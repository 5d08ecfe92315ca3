//! Recorded exchanges of the real service, replayed against ours.
//!
//! A session is strict when nothing differs, and lenient when status, code and values agree. Below the floors
//! the step fails; and each session that is not even lenient stands in `docs/compatibility.md` with its reason,
//! where none may stand that has come to agree.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tavola_testkit::{ServerOptions, TestServer};

use crate::cluster;
use crate::markers;
use crate::programs::{root, run, server_binary, shared};
use crate::step::{Outcome, Server, Step, Tally};

pub const TABLES: Step = Step {
    name: "recorded table sessions",
    server: Server::Needed,
    run: || check(&TABLE_CORPUS, Source::Repaired),
};
pub const TABLES_AS_RECORDED: Step = Step {
    name: "recorded table sessions, as they are",
    server: Server::Needed,
    run: || check(&TABLE_CORPUS, Source::AsRecorded),
};
pub const TABLES_WRITE: Step = Step {
    name: "recorded table sessions, list renewed",
    server: Server::Needed,
    run: || write(&TABLE_CORPUS),
};

pub const QUEUES: Step = Step {
    name: "recorded queue sessions",
    server: Server::Needed,
    run: || check(&QUEUE_CORPUS, Source::Repaired),
};
pub const QUEUES_WRITE: Step = Step {
    name: "recorded queue sessions, list renewed",
    server: Server::Needed,
    run: || write(&QUEUE_CORPUS),
};

pub const TABLES_ON_CLUSTER: Step = Step {
    name: "recorded table sessions, on Cassandra",
    server: Server::Needed,
    run: || check_on_cluster(&TABLE_CORPUS),
};
pub const QUEUES_ON_CLUSTER: Step = Step {
    name: "recorded queue sessions, on Cassandra",
    server: Server::Needed,
    run: || check_on_cluster(&QUEUE_CORPUS),
};

/// The recordings of one service.
struct Corpus {
    /// The replayer's word for the service.
    service: &'static str,
    /// The file under `corpus/`, which is also the name of the part of the document.
    name: &'static str,
    /// Percent of the sessions sent that must agree.
    lenient_percent_min: f64,
    /// Percent of the sessions sent that must not differ in anything.
    strict_percent_min: f64,
    /// Where the server is to be reached.
    endpoint: fn(&TestServer) -> &str,
}

const TABLE_CORPUS: Corpus = Corpus {
    service: "table",
    name: "tables",
    lenient_percent_min: 99.0,
    strict_percent_min: 97.0,
    endpoint: TestServer::table_endpoint,
};

const QUEUE_CORPUS: Corpus = Corpus {
    service: "queue",
    name: "queues",
    lenient_percent_min: 98.0,
    strict_percent_min: 97.0,
    endpoint: TestServer::queue_endpoint,
};

/// Which requests the replayer is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The recordings as they are.
    AsRecorded,
    /// The recordings with what [`crate::repair`] mends.
    Repaired,
}

const DOCUMENT: &str = "docs/compatibility.md";
const HEADING: &str = "| session | first difference | reason |\n|---|---|---|";
/// What `--write` puts where a person must write the reason.
const UNEXPLAINED: &str = "unexplained";
/// How a reason begins where the session agrees in some runs and not in others.
const VARIES: &str = "varies: ";

fn check(corpus: &Corpus, source: Source) -> Outcome {
    check_with(corpus, source, Vec::new())
}

/// The answers are the same whatever the store, so the same differences are known.
fn check_on_cluster(corpus: &Corpus) -> Outcome {
    cluster::with_nodes(1, |nodes| check_with(corpus, Source::Repaired, cluster::fresh_keyspace(nodes)?))
}

fn check_with(corpus: &Corpus, source: Source, arguments: Vec<String>) -> Outcome {
    let Ok(report) = replay_if_there(corpus, source, arguments)? else {
        return Ok(Tally::skip("../shared is not there"));
    };
    let (listed, missing) = match listed(corpus) {
        Ok(listed) => (listed, None),
        Err(missing) => (BTreeMap::new(), Some(missing)),
    };
    let mut tally = grade(corpus, &report, &listed)?;
    if let Some(missing) = missing {
        tally.check(Err(missing));
    }
    Ok(tally)
}

fn write(corpus: &Corpus) -> Outcome {
    let Ok(report) = replay_if_there(corpus, Source::Repaired, Vec::new())? else {
        return Ok(Tally::skip("../shared is not there"));
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
    grade(corpus, &report, &listed(corpus)?)
}

fn part_name(corpus: &Corpus) -> String {
    format!("corpus-{}", corpus.name)
}

/// The replayer's report of a server with these arguments; the inner error says that there is nothing to replay.
fn replay_if_there(
    corpus: &Corpus,
    source: Source,
    arguments: Vec<String>,
) -> Result<Result<Value, String>, String> {
    let name = corpus.name;
    let (replayer, recorded) = match (shared("replay/replay.py"), shared(&format!("corpus/{name}.jsonl"))) {
        (Ok(replayer), Ok(recorded)) => (replayer, recorded),
        (Err(missing), _) | (_, Err(missing)) => return Ok(Err(missing)),
    };
    let file = match source {
        Source::AsRecorded => recorded,
        Source::Repaired => {
            repair(name, &recorded).map_err(|error| format!("cannot repair the corpus ({error})"))?
        }
    };
    let options = ServerOptions { binary: Some(server_binary()), arguments, ..ServerOptions::default() };
    let server = TestServer::start_with(&options).map_err(|error| error.to_string())?;
    let report_path = root().join(format!("target/corpus-{name}.json"));
    let mut command = Command::new("python3");
    command.arg(replayer).args([
        "--service",
        corpus.service,
        "--endpoint",
        (corpus.endpoint)(&server),
        "--corpus",
    ]);
    run(command.arg(file).arg("--report").arg(&report_path))?.check()?;
    let text = std::fs::read_to_string(&report_path).map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map(Ok).map_err(|error| format!("the report is unreadable ({error})"))
}

fn repair(name: &str, recorded: &Path) -> io::Result<PathBuf> {
    let repaired = root().join(format!("target/corpus-{name}-repaired.jsonl"));
    std::fs::write(&repaired, crate::repair::repaired(&std::fs::read_to_string(recorded)?))?;
    Ok(repaired)
}

fn grade(corpus: &Corpus, report: &Value, listed: &BTreeMap<String, (usize, String)>) -> Outcome {
    let count = |name: &str| report[name].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let sent = count("sessions") - count("skipped");
    if sent == 0 {
        return Err("no session was sent".to_owned());
    }
    let percent = |part: u32| f64::from(part) * 100.0 / f64::from(sent);
    let (strict, lenient) = (percent(count("strict")), percent(count("lenient")));
    let mut tally = Tally::default();
    tally.note(format!(
        "{sent} sessions sent: strict {strict:.1} %, lenient {lenient:.1} %; {} cannot be sent",
        count("skipped")
    ));
    tally.check(floor("lenient", lenient, corpus.lenient_percent_min));
    tally.check(floor("strict", strict, corpus.strict_percent_min));
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
    for (name, (times, reason)) in unseen {
        if times > 0 && reason != UNEXPLAINED && !reason.starts_with(VARIES) {
            tally.check(Err(format!("{name} agrees now: take it out of {DOCUMENT}")));
        }
    }
    Ok(tally)
}

fn floor(grade: &str, percent: f64, min: f64) -> Result<(), String> {
    if percent >= min { Ok(()) } else { Err(format!("{grade} is {percent:.1} %, below {min} %")) }
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
        let corpus = Corpus { lenient_percent_min: 97.0, strict_percent_min: 90.0, ..TABLE_CORPUS };
        let tally = grade(&corpus, &report(outcomes), &listed).unwrap();
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
        check_grade(&["strict", "lenient"], "", (3, &["strict is 50.0 %"]));
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
