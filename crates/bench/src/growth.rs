//! What does not grow with the data: point read, insert, page, start and memory on tables of several sizes.

use std::time::Duration;

use crate::AnyError;
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::cores::Cores;
use crate::disk::block_read_micros;
use crate::load::{Load, run};
use crate::process::memory;
use crate::report::{Bound, Report};
use crate::tavola::{Tavola, fill, scratch_folder, send};
use crate::work::{Table, Work};

const CONNECTIONS: usize = 64;
const PAGE_CONNECTIONS: usize = 8;
/// Inserts into each table in a round, so that a small one stays small.
const INSERTS_MAX: u64 = 5_000;
const MIB: f64 = 1024.0 * 1024.0;

/// Which sizes, and how often.
#[derive(Clone, Debug)]
pub struct GrowthOptions {
    /// Rows of each table, the smallest first.
    pub rows: Vec<u64>,
    /// Rounds for each size.
    pub rounds: usize,
    /// How long a round takes.
    pub period: Duration,
}

impl Default for GrowthOptions {
    fn default() -> Self {
        Self { rows: vec![1_000, 1_000_000], rounds: 5, period: Duration::from_secs(2) }
    }
}

/// Measures growth alone and prints it.
pub fn growth(options: &GrowthOptions) -> Result<(), AnyError> {
    let mut report = Report::default();
    measure_growth(&Cores::share_out(), options, &mut report)?;
    println!("\n{}", report.tables());
    Ok(())
}

/// Measures growth on a server of its own.
pub fn measure_growth(cores: &Cores, options: &GrowthOptions, report: &mut Report) -> Result<(), AnyError> {
    let folder = scratch_folder()?;
    let data = folder.path().join("growth");
    let largest = options.rows.last().copied().ok_or("growth needs a number of rows")?;
    let mut server = Tavola::start(cores, &data)?;
    for rows in &options.rows {
        let table = Table::new(&server.endpoint, &table_name(*rows), *rows);
        let filled = fill(cores, &server.target(), &table)?;
        report.note(format!("filling {rows} rows by batches of 100: {:.0} rows/s", filled.rate() * 100.0));
    }
    note_memory(report, &server, "after filling", Bound::AtMost(256.0));
    server.kill();
    server = Tavola::start(cores, &data)?;
    check_start(report, &server, largest, "after kill -9");
    server.stop();
    server = Tavola::start(cores, &data)?;
    check_start(report, &server, largest, "after a clean stop");

    for (name, work, connections, requests_max) in [
        // One at a time: how long a client waits. Many: what the server can do.
        ("point read, one at a time", Work::PointRead, 1, u64::MAX),
        ("point read", Work::PointRead, CONNECTIONS, u64::MAX),
        ("page of 1,000", Work::Page, PAGE_CONNECTIONS, u64::MAX),
        ("insert", Work::InsertMany, CONNECTIONS, INSERTS_MAX),
    ] {
        let load = Load { requests_max, ..Load::closed(connections, options.period) };
        let all = take_turns_by_size(cores, options, &server, work, load)?;
        let Some((first, smallest)) = all.first() else { continue };
        let (smallest_rates, smallest_cpu) = (smallest.rates(), smallest.cpu_micros());
        for (rows, series) in &all {
            if rows == first {
                continue;
            }
            let work = format!("growth: {name} at {rows} rows");
            let range = Range::of_ratios(&series.rates(), &smallest_rates);
            report.check(&work, &format!("× at {first}, requests/s"), range, Bound::AtLeast(0.9));
            let range = Range::of_ratios(&smallest_cpu, &series.cpu_micros());
            report.check(&work, &format!("× at {first}, requests per CPU second"), range, Bound::None);
        }
        for (rows, series) in all {
            report.add_series(&format!("{name} at {rows} rows"), &[series])?;
        }
    }
    note_memory(report, &server, "after reads, pages and inserts", Bound::AtMost(256.0));
    let micros = block_read_micros(cores, &data)?.and_then(|micros| Range::of(&[micros]));
    report.check("a block of 8 KiB from the page cache", "µs to read and search", micros, Bound::None);

    let table = Table::new(&server.endpoint, &table_name(largest), largest);
    let (_, dropped) = send(cores, &server.endpoint, &table.deletion()?)?;
    let millis = Range::of(&[dropped.as_secs_f64() * 1000.0]);
    report.check(&format!("drop of a table of {largest} rows"), "ms", millis, Bound::None);
    server.stop();
    Ok(())
}

fn take_turns_by_size(
    cores: &Cores,
    options: &GrowthOptions,
    server: &Tavola,
    work: Work,
    load: Load,
) -> Result<Vec<(u64, Series)>, AnyError> {
    let target = server.target();
    let mut contestants = Vec::new();
    for rows in &options.rows {
        let source = Table::new(&server.endpoint, &table_name(*rows), *rows).source(work)?;
        let target = target.clone();
        let round = Box::new(move || run(cores, &target, load, &source));
        contestants.push(Contestant { name: "Tavola", process_id: None, round });
    }
    let series = take_turns(options.rounds, contestants)?;
    Ok(options.rows.iter().copied().zip(series).collect())
}

fn table_name(rows: u64) -> String {
    format!("Growth{rows}")
}

fn check_start(report: &mut Report, server: &Tavola, rows: u64, when: &str) {
    let work = format!("start at {rows} rows, {when}");
    report.check(
        &work,
        "s to the first answer",
        Range::of(&[server.start_time.as_secs_f64()]),
        Bound::AtMost(1.0),
    );
    note_memory(report, server, &format!("at start, {when}"), Bound::AtMost(256.0));
}

fn note_memory(report: &mut Report, server: &Tavola, when: &str, bound: Bound) {
    let memory = memory(server.target().process_id);
    let mebibytes = |bytes: u64| Range::of(&[bytes as f64 / MIB]);
    report.check(&format!("memory {when}"), "MiB resident", mebibytes(memory.resident), bound);
    report.check(&format!("memory {when}"), "MiB resident at most", mebibytes(memory.peak), Bound::None);
}
