//! Instructions for each kind of request: a figure that does not depend on what else the machine is doing.
//!
//! The server runs under callgrind twice with a different number of requests; what the two runs differ by is
//! the requests' own. Everything else, from the first of them to the stop, cancels out. What callgrind has counted in
//! the longer run stays beside the other results, to be looked at with `callgrind_annotate`.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::AnyError;
use crate::blob_requests::Container;
use crate::cores::Cores;
use crate::load::{Load, run};
use crate::tavola::{Tavola, fill, output_folder, scratch_folder, send};
use crate::work::{Source, Table, Work};

const ROWS: u64 = 2_000;
/// Few enough that a slowed-down server answers in time, enough that inserts share commits.
const CONNECTIONS: usize = 8;
const PERIOD: Duration = Duration::from_secs(120);
const KIB: usize = 1024;
/// Bytes of a blob that is only listed.
const LISTED_BYTES: usize = 16;

/// Records a second, at the speed of a counted server, so that about one request in fifty has one: so it is at full
/// load, with the records that there are by default.
const RECORDS_AS_UNDER_LOAD: &str = "10";
const RECORDS_OF_ALL: &str = "1000000";

/// A setting of the counted server, by its variable.
type Setting = (&'static str, &'static str);
const AS_UNDER_LOAD: Setting = ("TAVOLA_RECORDS_PER_SECOND", RECORDS_AS_UNDER_LOAD);
const RECORDED: Setting = ("TAVOLA_RECORDS_PER_SECOND", RECORDS_OF_ALL);
const WITHOUT_TELEMETRY: Setting = ("TAVOLA_TELEMETRY", "off");
/// Point reads that are counted, and three times as many.
const POINT_READS: u64 = 1_000;

/// What is counted.
#[derive(Clone, Copy, Debug)]
enum Counted {
    Table(Work),
    /// Gets of blobs of this size.
    BlobGet(usize),
    /// Puts of new blobs of this size.
    BlobPut(usize),
    /// Pages of all blobs of a container.
    BlobList,
}

/// Counts and prints the lines whose name contains `only`.
pub fn instructions(only: &str) -> Result<(), AnyError> {
    println!("| request | instructions | with a record of each |\n|---|---|---|");
    for (name, counted, count) in [
        ("point read", Counted::Table(Work::PointRead), POINT_READS),
        ("insert", Counted::Table(Work::InsertMany), 1_000),
        ("batch of 100", Counted::Table(Work::Batch), 20),
        ("page of 1,000", Counted::Table(Work::Page), 20),
        ("blob get 1 KiB", Counted::BlobGet(KIB), 1_000),
        ("blob put 1 KiB", Counted::BlobPut(KIB), 1_000),
        ("blob get 64 KiB", Counted::BlobGet(64 * KIB), 500),
        ("blob put 64 KiB", Counted::BlobPut(64 * KIB), 500),
        ("blob list page of 2,000", Counted::BlobList, 5),
    ] {
        if !name.contains(only) {
            continue;
        }
        let kept = output_folder()?.join(format!("callgrind.{}", name.replace([' ', ','], "-")));
        let with_record = count_each(counted, count, RECORDED, &kept)?;
        let as_under_load = count_each(counted, count, AS_UNDER_LOAD, &kept)?;
        println!("| {name} | {as_under_load} | {with_record} |");
    }
    Ok(())
}

/// Instructions of a point read with telemetry as under load, and without.
pub fn instructions_of_telemetry() -> Result<(u64, u64), AnyError> {
    let read = Counted::Table(Work::PointRead);
    let kept = output_folder()?.join("callgrind.telemetry");
    let on = count_each(read, POINT_READS, AS_UNDER_LOAD, &kept)?;
    Ok((on, count_each(read, POINT_READS, WITHOUT_TELEMETRY, &kept)?))
}

/// Instructions of one request.
fn count_each(counted: Counted, count: u64, setting: Setting, output: &Path) -> Result<u64, AnyError> {
    let fewer = count_run(counted, count, setting, output)?;
    let more = count_run(counted, 3 * count, setting, output)?;
    Ok(more.saturating_sub(fewer) / (2 * count))
}

/// Instructions of a whole run of the server, from start to stop, with so many requests.
fn count_run(counted: Counted, requests_max: u64, setting: Setting, output: &Path) -> Result<u64, AnyError> {
    let cores = Cores::share_out();
    let folder = scratch_folder()?;
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg("--instr-atstart=no");
    command.arg(format!("--callgrind-out-file={}", output.display()));
    command.arg(tavola_testkit::server_binary()?);
    command.env(setting.0, setting.1);
    let server = Tavola::start_under(&cores, &folder.path().join("counted"), command)?;
    let load = Load { requests_max, ..Load::closed(CONNECTIONS, PERIOD) };
    let measured = match counted {
        Counted::Table(work) => {
            let target = server.target();
            let table = Table::new(&server.endpoint, "Counted", ROWS);
            fill(&cores, &target, &table)?;
            begin_to_count(&server)?;
            run(&cores, &target, load, &table.source(work)?)?
        }
        Counted::BlobGet(_) | Counted::BlobPut(_) | Counted::BlobList => {
            let container = Container::new(server.blob_target(), "counted")?;
            send(&cores, &container.endpoint, &container.creation())?;
            let source = blob_source(&cores, &container, counted)?;
            begin_to_count(&server)?;
            run(&cores, &container.target, load, &source)?
        }
    };
    if measured.requests != requests_max {
        return Err(format!("{} of {requests_max} requests were answered in time", measured.requests).into());
    }
    server.stop();
    total(output)
}

/// What was done before, such as filling a table, is not counted.
fn begin_to_count(server: &Tavola) -> Result<(), AnyError> {
    let process_id = server.target().process_id.to_string();
    let done = Command::new("callgrind_control").arg("--instr=on").arg(process_id).output()?;
    if !done.status.success() {
        return Err(format!("callgrind_control: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    Ok(())
}

/// Where requests for blobs come from. What they read has been put before.
fn blob_source(cores: &Cores, container: &Container, counted: Counted) -> Result<Source, AnyError> {
    let put = |bytes: usize| container.puts(Arc::default(), ROWS, &vec![7; bytes]);
    let fill = |bytes| run(cores, &container.target, Load::closed(CONNECTIONS, PERIOD), &put(bytes));
    Ok(match counted {
        Counted::Table(work) => return Err(format!("{work:?} is no request for blobs").into()),
        Counted::BlobGet(bytes) => {
            fill(bytes)?;
            container.gets(ROWS, ROWS)?
        }
        Counted::BlobPut(bytes) => container.puts(Arc::default(), u64::MAX, &vec![7; bytes]),
        Counted::BlobList => {
            fill(LISTED_BYTES)?;
            Source::Any(Arc::new(vec![container.page("", ROWS)]))
        }
    })
}

/// The sum over all threads that callgrind leaves at the end of its file.
pub fn total(path: &Path) -> Result<u64, AnyError> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(line.ok_or("callgrind left no total")?.trim().parse()?)
}
