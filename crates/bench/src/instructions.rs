//! Instructions for each kind of request: a figure that does not depend on what else the machine is doing.
//!
//! The server runs under callgrind twice with a different number of requests; what the two runs differ by is
//! the requests' own. Everything else, from start to stop, cancels out.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::AnyError;
use crate::cores::Cores;
use crate::load::{Load, run};
use crate::tavola::{Tavola, fill, scratch_folder};
use crate::work::{Table, Work};

const ROWS: u64 = 2_000;
/// Few enough that a slowed-down server answers in time, enough that inserts share commits.
const CONNECTIONS: usize = 8;
const PERIOD: Duration = Duration::from_secs(120);

/// Records a second, at the speed of a counted server, so that about one request in fifty has one: so it is at full
/// load, with the records that there are by default.
const RECORDS_AS_UNDER_LOAD: &str = "10";
const RECORDS_OF_ALL: &str = "1000000";

/// Counts and prints them.
pub fn instructions() -> Result<(), AnyError> {
    println!("| request | instructions | with a record of each |\n|---|---|---|");
    for (name, work, count) in [
        ("point read", Work::PointRead, 1_000),
        ("insert", Work::InsertMany, 1_000),
        ("batch of 100", Work::Batch, 20),
        ("page of 1,000", Work::Page, 20),
    ] {
        let as_under_load = count_each(work, count, RECORDS_AS_UNDER_LOAD)?;
        let with_record = count_each(work, count, RECORDS_OF_ALL)?;
        println!("| {name} | {as_under_load} | {with_record} |");
    }
    Ok(())
}

/// Instructions of one request.
fn count_each(work: Work, count: u64, records_per_second: &str) -> Result<u64, AnyError> {
    let fewer = count_run(work, count, records_per_second)?;
    let more = count_run(work, 3 * count, records_per_second)?;
    Ok(more.saturating_sub(fewer) / (2 * count))
}

/// Instructions of a whole run of the server, from start to stop, with so many requests.
fn count_run(work: Work, requests_max: u64, records_per_second: &str) -> Result<u64, AnyError> {
    let cores = Cores::share_out();
    let folder = scratch_folder()?;
    let output = folder.path().join("callgrind.out");
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", output.display()));
    command.arg(tavola_testkit::server_binary()?);
    command.env("TAVOLA_RECORDS_PER_SECOND", records_per_second);
    let server = Tavola::start_under(&cores, &folder.path().join("counted"), command)?;
    let target = server.target();
    let table = Table::new(&server.endpoint, "Counted", ROWS);
    fill(&cores, &target, &table)?;
    let load = Load { requests_max, ..Load::closed(CONNECTIONS, PERIOD) };
    let measured = run(&cores, &target, load, &table.source(work)?)?;
    if measured.requests != requests_max {
        return Err(format!("{} of {requests_max} requests were answered in time", measured.requests).into());
    }
    server.stop();
    total(&output)
}

/// The sum over all threads that callgrind leaves at the end of its file.
pub fn total(path: &Path) -> Result<u64, AnyError> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(line.ok_or("callgrind left no total")?.trim().parse()?)
}
