//! One kind of work on our server alone: for profilers, and for latency under a given load.

use std::path::PathBuf;
use std::time::Duration;

use crate::AnyError;
use crate::compare::Series;
use crate::cores::Cores;
use crate::load::{Load, Pace, run};
use crate::process::memory;
use crate::report::Report;
use crate::tavola::{Tavola, fill, fill_from, scratch_folder};
use crate::work::{Table, Work};

/// What to run.
#[derive(Clone, Debug)]
pub struct SingleOptions {
    /// `point-read`, `insert`, …
    pub work: String,
    /// Rows of the table.
    pub rows: u64,
    /// A data folder that stays: it is filled if it is not there yet. Without one, a new folder each time.
    pub data: Option<PathBuf>,
    /// Connections at once.
    pub connections: usize,
    /// How long.
    pub period: Duration,
    /// Requests a second; as many as are answered if there is none.
    pub per_second: Option<u32>,
}

const WORKS: [(&str, Work); 10] = [
    ("point-read", Work::PointRead),
    ("insert", Work::InsertMany),
    ("insert-hot", Work::InsertHot),
    ("upsert", Work::Upsert),
    ("merge", Work::Merge),
    ("delete", Work::Delete),
    ("batch", Work::Batch),
    ("page", Work::Page),
    ("range", Work::Range),
    ("mixed", Work::Mixed),
];

/// Runs it and prints what came of it.
pub fn single(options: &SingleOptions) -> Result<(), AnyError> {
    let work = WORKS.iter().find(|(name, _)| *name == options.work).map(|(_, work)| *work);
    let known = || format!("no such work; known are {}", WORKS.map(|(name, _)| name).join(", "));
    let work = work.ok_or_else(known)?;
    let cores = Cores::share_out();
    let folder = scratch_folder()?;
    let data = options.data.clone().unwrap_or_else(|| folder.path().join("single"));
    let is_filled = data.exists();
    let server = Tavola::start(&cores, &data)?;
    let target = server.target();
    let table = Table::new(&server.endpoint, "Single", options.rows);
    if !is_filled {
        fill(&cores, &target, &table)?;
    }
    let source = if work == Work::Delete {
        let (filling, deletions) = table.doomed(options.rows)?;
        fill_from(&cores, &target, &filling)?;
        deletions
    } else {
        table.source(work)?
    };
    println!("process {} is under load", target.process_id);
    let pace = options.per_second.map_or(Pace::Closed, |per_second| Pace::Open { per_second });
    let load = Load { pace, ..Load::closed(options.connections, options.period) };
    let measured = run(&cores, &target, load, &source)?;
    Report::default().add_series(&options.work, &[Series { name: "Tavola", rounds: vec![measured] }])?;
    println!("{} MiB resident", memory(target.process_id).resident >> 20);
    server.stop();
    Ok(())
}
