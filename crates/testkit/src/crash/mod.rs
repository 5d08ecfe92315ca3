//! The crash test: many writers, `kill -9` at random moments, and a check of what is left.
//!
//! Each round starts the server on the same data folder, holds everything it has against what was
//! acknowledged before, lets the writers loose and kills the server under them. Some rounds kill it while it
//! is still opening the folder. What was acknowledged must be there, what was in flight may be there or not,
//! and a transaction is there whole or not at all. The seed is printed; the same seed makes the same choices.

mod emulator;
mod model;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use http::Method;

use crate::under_load::kill_under;
use crate::{Connection, DataFolder, Request, ServerOptions, StartError, TestServer};
use model::PartitionModel;
use writer::Writer;

pub use emulator::{EmulatorLosses, kill_emulator};

/// The table that the writers fill.
const TABLE: &str = "crash";

/// How hard to try.
#[derive(Clone, Debug)]
pub struct CrashOptions {
    /// The program, if not the usual one.
    pub binary: Option<PathBuf>,
    /// How often to kill.
    pub rounds: usize,
    /// Connections that write.
    pub writers: usize,
    /// Where chance starts.
    pub seed: u64,
    /// Milliseconds that the writers get at most before a kill.
    pub write_ms_max: u64,
}

impl Default for CrashOptions {
    fn default() -> Self {
        Self { binary: None, rounds: 24, writers: 24, seed: fastrand::u64(..), write_ms_max: 2_000 }
    }
}

/// What a crash test went through without a loss.
#[derive(Clone, Debug, Default)]
pub struct CrashReport {
    /// Kills.
    pub rounds: usize,
    /// Kills while the server was opening its folder.
    pub kills_while_opening: usize,
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Of these, transactions of ten.
    pub transactions: u64,
    /// Writes whose outcome a kill left open.
    pub in_flight: u64,
    /// Of these, how many had been kept.
    pub in_flight_kept: u64,
    /// The longest time from start to listening, in milliseconds.
    pub open_ms_max: u128,
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} rounds, {} more kills while opening, {} acknowledged writes ({} transactions of {}), \
             {} in flight of which {} kept, slowest start {} ms: nothing lost, nothing torn",
            self.rounds,
            self.kills_while_opening,
            self.acknowledged,
            self.transactions,
            model::GROUP_ROWS,
            self.in_flight,
            self.in_flight_kept,
            self.open_ms_max
        )
    }
}

/// Runs the crash test on a fresh data folder. An error says what was lost.
pub fn run(options: &CrashOptions) -> Result<CrashReport, String> {
    let folder = tempfile::Builder::new()
        .prefix("tavola-crash-")
        .tempdir()
        .map_err(|error| format!("no data folder ({error})"))?;
    let server_options = ServerOptions {
        binary: options.binary.clone(),
        data: DataFolder::At(folder.path().join("data")),
        arguments: Vec::new(),
    };
    let mut rng = Rng::with_seed(options.seed);
    let mut models: Vec<PartitionModel> = (0..options.writers).map(PartitionModel::new).collect();
    let mut tables = Vec::new();
    let mut report = CrashReport::default();
    // The last round only reads.
    for round in 0..=options.rounds {
        if round > 0 && rng.u8(..) < 64 {
            kill_while_opening(&server_options, &mut rng).map_err(|error| error.to_string())?;
            report.kills_while_opening += 1;
        }
        let started = Instant::now();
        let mut server = TestServer::start_with(&server_options).map_err(|error| error.to_string())?;
        report.open_ms_max = report.open_ms_max.max(started.elapsed().as_millis());
        let outcome = one_round(options, round, &mut server, &mut rng, &mut tables, models, &mut report);
        models = outcome.map_err(|loss| {
            format!("round {round}, seed {}: {loss}\nserver log:\n{}", options.seed, server.log())
        })?;
        server.kill();
    }
    report.rounds = options.rounds;
    Ok(report)
}

fn kill_while_opening(options: &ServerOptions, rng: &mut Rng) -> Result<(), StartError> {
    let mut server = TestServer::spawn(options)?;
    std::thread::sleep(Duration::from_millis(rng.u64(0..300)));
    server.kill();
    Ok(())
}

/// Looks, then writes until the server is killed; gives what must be there afterwards.
fn one_round(
    options: &CrashOptions,
    round: usize,
    server: &mut TestServer,
    rng: &mut Rng,
    tables: &mut Vec<String>,
    mut models: Vec<PartitionModel>,
    report: &mut CrashReport,
) -> Result<Vec<PartitionModel>, String> {
    let endpoint = &server.table_endpoint().to_owned();
    let mut connection = Connection::open(endpoint).map_err(|error| format!("no connection ({error})"))?;
    if round == 0 {
        create_table(&mut connection, TABLE, tables)?;
    }
    model::check_tables(&mut connection, tables)?;
    for model in &mut models {
        report.in_flight += u64::from(model.has_pending());
        report.in_flight_kept += u64::from(model.check(&mut connection)?);
    }
    if round == options.rounds {
        return Ok(models);
    }
    create_table(&mut connection, &format!("round{round}"), tables)?;
    if round > 0 {
        delete_table(&mut connection, &format!("round{}", round - 1), tables)?;
    }
    let write_ms = rng.u64(20..options.write_ms_max.max(21));
    let writers = models.into_iter().map(|model| Writer::new(endpoint, model, rng.fork())).collect();
    let ended = kill_under(server, write_ms, writers, Writer::write_until)?;
    let mut models = Vec::with_capacity(ended.len());
    for writer in ended {
        report.acknowledged += writer.acknowledged;
        report.transactions += writer.transactions;
        models.push(writer.model);
    }
    Ok(models)
}

fn create_table(connection: &mut Connection, name: &str, tables: &mut Vec<String>) -> Result<(), String> {
    let request = Request::new(Method::POST, "/Tables").with_json(format!("{{\"TableName\":\"{name}\"}}"));
    let response = connection.send(&request).map_err(|error| format!("create table failed ({error})"))?;
    if response.status != 201 {
        return Err(format!("create table answered {}: {}", response.status, response.text()));
    }
    tables.push(name.to_owned());
    Ok(())
}

fn delete_table(connection: &mut Connection, name: &str, tables: &mut Vec<String>) -> Result<(), String> {
    let request = Request::new(Method::DELETE, format!("/Tables('{name}')"));
    let response = connection.send(&request).map_err(|error| format!("delete table failed ({error})"))?;
    if response.status != 204 {
        return Err(format!("delete table answered {}: {}", response.status, response.text()));
    }
    tables.retain(|known| known != name);
    Ok(())
}
