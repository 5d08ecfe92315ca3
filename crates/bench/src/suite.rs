//! `compare`: everything side by side in one run.

use std::time::{Duration, Instant};

use crate::AnyError;
use crate::azurite::Azurite;
use crate::cores::Cores;
use crate::engine::EngineFloor;
use crate::growth::{GrowthOptions, measure_growth};
use crate::report::{Report, machine};
use crate::tavola::{Tavola, fill, output_folder, scratch_folder};
use crate::work::Table;

/// How long a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// About two minutes: small tables, short rounds.
    Quick,
    /// About fifteen minutes, up to a million rows.
    Full,
}

/// What an extent means.
#[derive(Clone, Debug)]
pub struct Plan {
    pub rounds: usize,
    pub period: Duration,
    /// Rows of the table that is read.
    pub rows: u64,
    /// Rows of the tables that only we filter.
    pub filter_rows: Vec<u64>,
    /// How long the steady load of inserts takes.
    pub steady_period: Duration,
    pub growth_rows: Vec<u64>,
}

impl Extent {
    fn plan(self) -> Plan {
        match self {
            Extent::Quick => Plan {
                rounds: 3,
                period: Duration::from_millis(600),
                rows: 10_000,
                filter_rows: vec![10_000, 100_000],
                steady_period: Duration::from_secs(5),
                growth_rows: vec![1_000, 100_000],
            },
            Extent::Full => Plan {
                rounds: 5,
                period: Duration::from_secs(2),
                rows: 100_000,
                filter_rows: vec![10_000, 100_000, 1_000_000],
                steady_period: Duration::from_secs(30),
                growth_rows: vec![1_000, 10_000, 100_000, 1_000_000],
            },
        }
    }
}

/// Everyone who takes part, and what is found.
pub struct Stage {
    pub cores: Cores,
    pub plan: Plan,
    pub folder: tempfile::TempDir,
    pub tavola: Tavola,
    pub azurite: Option<Azurite>,
    pub engine: EngineFloor,
    pub report: Report,
}

/// Runs the whole comparison, or the lines whose name contains `only`; prints it and keeps it as JSON.
pub fn compare(extent: Extent, only: &str) -> Result<(), AnyError> {
    let started = Instant::now();
    let plan = extent.plan();
    let cores = Cores::share_out();
    println!("{}: generator on {:?}, contestants on {:?}", machine(), cores.generator, cores.contestant);
    let mut stage = set_up(cores, plan, only)?;
    stage.run_lines(only)?;
    // The engine and the servers are done; growth measures memory and wants the machine for itself.
    let Stage { cores, plan, mut report, .. } = stage;
    if "growth".contains(only) {
        let options = GrowthOptions { rows: plan.growth_rows, rounds: plan.rounds, period: plan.period };
        measure_growth(&cores, &options, &mut report)?;
    }
    println!("\n{}", report.tables());
    let path = output_folder()?.join(match extent {
        _ if !only.is_empty() => "some.json",
        Extent::Quick => "quick.json",
        Extent::Full => "full.json",
    });
    std::fs::write(&path, serde_json::to_vec_pretty(&report.to_json())?)?;
    println!("took {:.0} s; figures are in {}", started.elapsed().as_secs_f64(), path.display());
    Ok(())
}

fn set_up(cores: Cores, plan: Plan, only: &str) -> Result<Stage, AnyError> {
    let folder = scratch_folder()?;
    let mut report = Report::default();
    let tavola = Tavola::start(&cores, &folder.path().join("tavola"))?;
    let azurite = match Azurite::start(&cores, folder.path()) {
        Ok(azurite) => Some(azurite),
        Err(error) => {
            report.note(format!("Azurite is skipped: {error}"));
            None
        }
    };
    let engine = EngineFloor::open(&cores, folder.path(), plan.rows)?;
    let mut stage = Stage { cores, plan, folder, tavola, azurite, engine, report };
    for (target, endpoint) in stage.servers() {
        for (name, rows) in [("Read", stage.plan.rows), ("Write", 0), ("Large", 0)] {
            let filled = fill(&stage.cores, &target, &Table::new(&endpoint, name, rows))?;
            if rows > 0 {
                println!("{}: filled with {rows} rows, {:.0} rows/s", target.host, filled.rate() * 100.0);
            }
        }
    }
    if !"filter".contains(only) {
        return Ok(stage);
    }
    let tavola = stage.tavola.target();
    for rows in stage.plan.filter_rows.clone() {
        let table = Table::new(&stage.tavola.endpoint, &format!("Filter{rows}"), rows);
        let filled = fill(&stage.cores, &tavola, &table)?;
        let rate = filled.rate() * 100.0;
        stage.report.note(format!("filling {rows} rows by batches of 100: {rate:.0} rows/s"));
    }
    Ok(stage)
}
