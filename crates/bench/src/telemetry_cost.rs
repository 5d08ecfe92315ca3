//! What telemetry costs: point reads on a server with it, in turns with one that observes nothing.
//!
//! The difference is smaller than the noise of a shared machine, so there are many short rounds; their median is known
//! better than any of them. And of two servers that are alike one may be faster for as long as it runs, by where its memory
//! happens to lie, so that they are started again several times. A second server without telemetry shows by how much
//! two that are the same seem to differ.

use std::process::Command;
use std::time::Duration;

use crate::AnyError;
use crate::compare::{Contestant, Range, Series, take_turns};
use crate::cores::Cores;
use crate::instructions::instructions_of_telemetry;
use crate::load::{Load, Measured, run};
use crate::report::{Bound, Report};
use crate::suite::Extent;
use crate::tavola::{Tavola, fill, scratch_folder};
use crate::work::{Source, Table, Work};

const ROWS: u64 = 10_000;
const CONNECTIONS: usize = 64;
const ROUND: Duration = Duration::from_millis(500);
/// Before each round, and not measured. A server that was held still takes the first requests for the end of a quiet time
/// and records all of them, until it knows better.
const WARM_UP: Duration = Duration::from_millis(300);
/// The share of a point read that telemetry may take.
const COST_MAX: f64 = 0.03;

/// Rounds with the same servers.
const ROUNDS: usize = 10;
const CONTESTANTS: [(&str, &str); 3] =
    [("with telemetry", "on"), ("without", "off"), ("without, once more", "off")];

/// Measures and counts it; prints what came of it. Fails if too many instructions are counted.
pub fn telemetry_cost(extent: Extent) -> Result<(), AnyError> {
    const LINE: &str = "point read with telemetry";
    let starts = match extent {
        Extent::Quick => 3,
        Extent::Full => 10,
    };
    let cores = Cores::share_out();
    let mut series = CONTESTANTS.map(|(name, _)| Series { name, rounds: Vec::new() });
    for start in 0..starts {
        for (all, rounds) in series.iter_mut().zip(measure(&cores, start)?) {
            all.rounds.extend(rounds);
        }
    }
    let mut report = Report::default();
    report.add_series(LINE, &series)?;
    let [on, off, same] = &series;
    let rates = Range::of_ratios(&on.rates(), &off.rates());
    report.check(LINE, "× the rate without", rates, Bound::AtLeast(1.0 - COST_MAX));
    let cpu = Range::of_ratios(&on.cpu_micros(), &off.cpu_micros());
    report.check(LINE, "× the CPU time without", cpu, Bound::AtMost(1.0 + COST_MAX));
    let noise = Range::of_ratios(&same.rates(), &off.rates());
    report.check(LINE, "× the rate without, of the one that is the same", noise, Bound::None);
    let (on, off) = instructions_of_telemetry()?;
    report.note(format!("instructions of a point read: {on} with telemetry, {off} without"));
    let counted = Range::of(&[on as f64 / off as f64]);
    report.check(LINE, "× the instructions without", counted, Bound::AtMost(1.0 + COST_MAX));
    println!("\n{}", report.tables());
    // Rates vary by a few percent on their own; instructions do not.
    if on as f64 > off as f64 * (1.0 + COST_MAX) {
        return Err("telemetry takes more instructions than its target".into());
    }
    Ok(())
}

/// The rounds of servers that are started for them, in the order of [`CONTESTANTS`].
fn measure(cores: &Cores, start: usize) -> Result<[Vec<Measured>; 3], AnyError> {
    let folder = scratch_folder()?;
    let mut servers: [Option<(Tavola, Source)>; 3] = [None, None, None];
    // Whoever starts first is another one each time.
    for turn in 0..servers.len() {
        let index = (start + turn) % servers.len();
        let mut command = Command::new(tavola_testkit::server_binary()?);
        command.env("TAVOLA_TELEMETRY", CONTESTANTS[index].1);
        let server = Tavola::start_under(cores, &folder.path().join(index.to_string()), command)?;
        let table = Table::new(&server.endpoint, "Observed", ROWS);
        fill(cores, &server.target(), &table)?;
        servers[index] = Some((server, table.source(Work::PointRead)?));
    }
    let contestants = servers.iter().flatten().zip(CONTESTANTS).map(|((server, source), (name, _))| {
        let target = server.target();
        let process_id = Some(target.process_id);
        let round = move || {
            run(cores, &target, Load::closed(CONNECTIONS, WARM_UP), source)?;
            run(cores, &target, Load::closed(CONNECTIONS, ROUND), source)
        };
        Contestant { name, process_id, round: Box::new(round) }
    });
    let series = take_turns(ROUNDS, contestants.collect())?;
    servers.into_iter().flatten().for_each(|(server, _)| server.stop());
    let mut rounds = series.into_iter().map(|series| series.rounds);
    Ok(std::array::from_fn(|_| rounds.next().unwrap_or_default()))
}
