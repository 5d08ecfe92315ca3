//! The lines of the comparison, each with its contestants and targets (issue 6).

use std::time::Duration;

use crate::AnyError;
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::disk::sync_rate;
use crate::endpoint::Endpoint;
use crate::floor::Floor;
use crate::load::{Load, Measured, Pace, Target, latencies, run};
use crate::process::Pause;
use crate::report::Bound;
use crate::suite::Stage;
use crate::tavola::{fill_from, send};
use crate::walk::{Query, walk};
use crate::work::{Source, Spread, Table, Work};

const TAVOLA: &str = "Tavola";
const AZURITE: &str = "Azurite";
const HYPER: &str = "bare hyper";
const ENGINE: &str = "engine";

const CONNECTIONS: usize = 64;
/// 64 KiB properties in the largest entity: a megabyte of JSON, and as much as Azurite takes.
const LARGEST: usize = 11;
/// Pages and large entities fill the wire with fewer.
const BULKY_CONNECTIONS: usize = 8;
/// Entities inserted for one round of deletions, more than a round can take.
const TAVOLA_DELETIONS_PER_SECOND: f64 = 25_000.0;
const AZURITE_DELETIONS_PER_SECOND: f64 = 1_500.0;
/// Rows of a table from which on reads have the higher target against Azurite.
const LARGE_TABLE_ROWS: u64 = 100_000;

/// A line over HTTP.
struct Line {
    name: &'static str,
    work: Work,
    table: &'static str,
    connections: usize,
    floors: Floors,
    /// It reads the data set, so the size of that matters.
    reads: bool,
}

/// What bounds a line from below.
enum Floors {
    None,
    /// At least so many times the requests of bare hyper.
    Hyper(f64),
    /// At least so many times the smaller of bare hyper and the engine's own inserts.
    HyperAndInsert(Spread, f64),
    /// At most so many times the time of the engine's own scan and JSON text, for each row.
    Scan(f64),
}

const fn line(
    name: &'static str,
    work: Work,
    table: &'static str,
    connections: usize,
    floors: Floors,
) -> Line {
    Line { name, work, table, connections, floors, reads: false }
}

const fn reading(mut line: Line) -> Line {
    line.reads = true;
    line
}

fn lines() -> Vec<Line> {
    use Floors::{Hyper, HyperAndInsert, None, Scan};
    let bulky = BULKY_CONNECTIONS;
    vec![
        reading(line("point read", Work::PointRead, "Read", CONNECTIONS, Hyper(0.8))),
        line(
            "insert, many partitions",
            Work::InsertMany,
            "Write",
            CONNECTIONS,
            HyperAndInsert(Spread::Many, 0.6),
        ),
        line(
            "insert, hot partition",
            Work::InsertHot,
            "Write",
            CONNECTIONS,
            HyperAndInsert(Spread::Hot, 0.5),
        ),
        line("upsert", Work::Upsert, "Read", CONNECTIONS, None),
        line("merge", Work::Merge, "Read", CONNECTIONS, None),
        line("delete", Work::Delete, "Write", CONNECTIONS, None),
        line("batch of 100", Work::Batch, "Write", bulky, None),
        reading(line("mixed 95/5", Work::Mixed, "Read", CONNECTIONS, None)),
        reading(line("page of 1,000", Work::Page, "Read", bulky, Scan(2.0))),
        reading(line("range of 100", Work::Range, "Read", bulky, Scan(2.0))),
        line("64 KiB entity, upsert", Work::LargeWrite(1), "Large", bulky, None),
        line("64 KiB entity, read", Work::LargeRead(1), "Large", bulky, None),
        line("704 KiB entity, upsert", Work::LargeWrite(LARGEST), "Large", bulky, None),
        line("704 KiB entity, read", Work::LargeRead(LARGEST), "Large", bulky, None),
    ]
}

impl Stage {
    /// The servers that hold the tables.
    pub fn servers(&self) -> Vec<(Target, Endpoint)> {
        let azurite = self.azurite.iter().map(|azurite| (azurite.target(), azurite.endpoint.clone()));
        std::iter::once((self.tavola.target(), self.tavola.endpoint.clone())).chain(azurite).collect()
    }

    /// Where we are alone: Azurite writes all its data out again and again when nobody asks for anything.
    fn hold_azurite(&self) -> Option<Pause> {
        Pause::of(self.azurite.as_ref()?.target().process_id)
    }

    /// Runs the lines whose name contains `only`.
    pub fn run_lines(&mut self, only: &str) -> Result<(), AnyError> {
        if "sync of 64 KiB".contains(only) {
            let disk = Contestant {
                name: "disk",
                process_id: None,
                round: Box::new(|| sync_rate(&self.cores, self.folder.path(), self.plan.period)),
            };
            let series = take_turns(self.plan.rounds, vec![disk])?;
            self.report.add_series("sync of 64 KiB", &series)?;
        }
        for line in lines().iter().filter(|line| line.name.contains(only)) {
            // One contestant that refuses one kind of work is no reason to know nothing of the others.
            if let Err(error) = self.run_line(line) {
                self.report.note(format!("{} could not be measured: {error}", line.name));
            }
        }
        if "steady inserts".contains(only) {
            self.run_steady()?;
        }
        for (name, query) in [("full scan", Query::Everything), ("filter", Query::NoMatch)] {
            if name.contains(only) {
                self.run_walk(name, query)?;
            }
        }
        if "filter".contains(only) {
            self.run_filters()?;
        }
        self.run_queue_lines(only)?;
        Ok(())
    }

    fn run_line(&mut self, line: &Line) -> Result<(), AnyError> {
        let load = Load::closed(line.connections, self.plan.period);
        let mut sources = Vec::new();
        for (target, endpoint) in self.servers() {
            let table = Table::new(&endpoint, line.table, self.plan.rows);
            if let Work::LargeRead(properties) = line.work {
                let writes = table.source(Work::LargeWrite(properties))?.once();
                run(&self.cores, &target, Load::closed(1, Duration::from_secs(60)), &writes)?;
            }
            sources.push((target, table.clone(), table.source(line.work)?));
        }
        let floor = match line.floors {
            Floors::Hyper(_) | Floors::HyperAndInsert(..) => Some(self.start_floor(line)?),
            Floors::None | Floors::Scan(_) => None,
        };
        let mut contestants = Vec::new();
        for ((target, table, source), name) in sources.iter().zip([TAVOLA, AZURITE]) {
            let stage = &*self;
            let round: Box<dyn FnMut() -> _> = match line.work {
                Work::Delete => Box::new(move || stage.delete(name, target, table, load)),
                _ => Box::new(move || run(&stage.cores, target, load, source)),
            };
            contestants.push(Contestant { name, process_id: Some(target.process_id), round });
        }
        if let Some((floor, source)) = &floor {
            let cores = &self.cores;
            let round = Box::new(move || run(cores, &floor.target(), load, source));
            contestants.push(Contestant { name: HYPER, process_id: None, round });
        }
        let (engine, period) = (&self.engine, self.plan.period);
        match line.floors {
            Floors::HyperAndInsert(spread, _) => {
                let round = Box::new(move || engine.insert(spread, period));
                contestants.push(Contestant { name: ENGINE, process_id: None, round });
            }
            Floors::Scan(_) => {
                let round = Box::new(move || engine.scan_to_json(line.work.rows(), period));
                contestants.push(Contestant { name: ENGINE, process_id: None, round });
            }
            Floors::None | Floors::Hyper(_) => {}
        }
        let series = take_turns(self.plan.rounds, contestants)?;
        self.report.add_series(line.name, &series)?;
        self.judge(line, &series);
        Ok(())
    }

    /// A floor that answers as our server just did, and the same requests for it.
    fn start_floor(&self, line: &Line) -> Result<(Floor, Source), AnyError> {
        let table = Table::new(&self.tavola.endpoint, line.table, self.plan.rows);
        let mut request = Vec::new();
        let _ = table.source(line.work)?.next(&mut fastrand::Rng::with_seed(1), &mut request);
        let (answer, _) = send(&self.cores, &self.tavola.endpoint, &request)?;
        let floor = Floor::start(&self.cores, self.folder.path(), &answer)?;
        let source = Table::new(&floor.endpoint, line.table, self.plan.rows).source(line.work)?;
        Ok((floor, source))
    }

    fn delete(
        &self,
        name: &'static str,
        target: &Target,
        table: &Table,
        load: Load,
    ) -> Result<Measured, AnyError> {
        let per_second =
            if name == AZURITE { AZURITE_DELETIONS_PER_SECOND } else { TAVOLA_DELETIONS_PER_SECOND };
        let count = Duration::from_secs_f64(load.period.as_secs_f64() * per_second).as_secs();
        let (filling, deletions) = table.doomed(count)?;
        fill_from(&self.cores, target, &filling)?;
        run(&self.cores, target, load, &deletions)
    }

    fn judge(&mut self, line: &Line, all: &[Series]) {
        let find = |name: &str| all.iter().find(|series| series.name == name);
        let Some(tavola) = find(TAVOLA) else { return };
        let (rates, cpu) = (tavola.rates(), tavola.cpu_micros());
        let report = &mut self.report;
        let ratio = |other: &Series| Range::of_ratios(&rates, &other.rates());
        if let Some(hyper) = find(HYPER) {
            let engine = find(ENGINE).map(Series::rates);
            let bound = match line.floors {
                Floors::Hyper(least) => Bound::AtLeast(least),
                _ => Bound::None,
            };
            report.check(line.name, "× bare hyper, requests/s", ratio(hyper), bound);
            // The generator may be what limits the floor; time on cores cannot hide behind that.
            let cpu_ratio = Range::of_ratios(&hyper.cpu_micros(), &cpu);
            report.check(line.name, "× bare hyper, requests per CPU second", cpu_ratio, bound);
            if let (Floors::HyperAndInsert(_, least), Some(engine)) = (&line.floors, engine) {
                let smaller: Vec<f64> =
                    hyper.rates().iter().zip(&engine).map(|(hyper, engine)| hyper.min(*engine)).collect();
                let range = Range::of_ratios(&rates, &smaller);
                report.check(line.name, "× smaller of hyper and engine", range, Bound::AtLeast(*least));
            }
        }
        if let (Floors::Scan(most), Some(engine)) = (&line.floors, find(ENGINE)) {
            let range = Range::of_ratios(&cpu, &engine.cpu_micros());
            report.check(line.name, "× CPU a row of engine scan + JSON", range, Bound::AtMost(*most));
        }
        if let Some(azurite) = find(AZURITE) {
            let least = if line.reads && self.plan.rows >= LARGE_TABLE_ROWS { 20.0 } else { 10.0 };
            report.check(line.name, "× Azurite, requests/s", ratio(azurite), Bound::AtLeast(least));
        }
    }

    /// Inserts at half of what is possible: what a client waits.
    fn run_steady(&mut self) -> Result<(), AnyError> {
        const WORK: &str = "steady inserts, half of capacity";
        let _quiet = self.hold_azurite();
        let source = Table::new(&self.tavola.endpoint, "Write", 0).source(Work::InsertMany)?;
        let target = self.tavola.target();
        // Long enough that what it keeps up includes the compaction of what it took.
        let period = self.plan.steady_period / 3;
        let closed = run(&self.cores, &target, Load::closed(CONNECTIONS, period), &source)?;
        // Half of the requests a second.
        let per_second = u32::try_from(closed.requests * 500 / u64::try_from(period.as_millis())?)?;
        let load =
            Load { pace: Pace::Open { per_second }, ..Load::closed(CONNECTIONS, self.plan.steady_period) };
        let measured = run(&self.cores, &target, load, &source)?;
        let at = |quantile| measured.latency.value_at_quantile(quantile) as f64 / 1000.0;
        let (slow, slowest) = (at(0.999), at(1.0));
        self.report.add_series(WORK, &[Series { name: TAVOLA, rounds: vec![measured] }])?;
        self.report.check(WORK, "ms, p99.9", Range::of(&[slow]), Bound::AtMost(50.0));
        self.report.check(WORK, "ms, longest", Range::of(&[slowest]), Bound::AtMost(250.0));
        Ok(())
    }

    /// A query over the whole table that everyone holds.
    fn run_walk(&mut self, name: &str, query: Query) -> Result<(), AnyError> {
        let (cores, plan) = (&self.cores, &self.plan);
        let mut contestants = Vec::new();
        for ((target, endpoint), name) in self.servers().into_iter().zip([TAVOLA, AZURITE]) {
            let table = Table::new(&endpoint, "Read", plan.rows);
            let process_id = Some(target.process_id);
            let round = Box::new(move || {
                let walked = walk(cores, &target, &table, query, plan.period)?;
                let (elapsed, cpu) = (walked.elapsed, walked.cpu);
                Ok(Measured { requests: walked.rows, elapsed, latency: latencies(), cpu })
            });
            contestants.push(Contestant { name, process_id, round });
        }
        let work = format!("{name} of {} rows, rows/s", plan.rows);
        let series = take_turns(plan.rounds, contestants)?;
        self.report.add_series(&work, &series)?;
        if let [tavola, azurite] = series.as_slice() {
            let least = if self.plan.rows >= LARGE_TABLE_ROWS { 20.0 } else { 10.0 };
            let range = Range::of_ratios(&tavola.rates(), &azurite.rates());
            self.report.check(&work, "× Azurite, rows/s", range, Bound::AtLeast(least));
        }
        Ok(())
    }

    /// How fast we test rows, on tables of several sizes.
    fn run_filters(&mut self) -> Result<(), AnyError> {
        let _quiet = self.hold_azurite();
        for rows in self.plan.filter_rows.clone() {
            let table = Table::new(&self.tavola.endpoint, &format!("Filter{rows}"), rows);
            let mut millions = Vec::new();
            for _ in 0..self.plan.rounds {
                let period = self.plan.period;
                let walked = walk(&self.cores, &self.tavola.target(), &table, Query::NoMatch, period)?;
                millions.push(walked.rows as f64 / walked.cpu.as_secs_f64().max(1e-6) / 1e6);
            }
            let work = format!("filter on a property, {rows} rows");
            self.report.check(&work, "M rows per CPU second", Range::of(&millions), Bound::AtLeast(1.0));
        }
        Ok(())
    }
}
