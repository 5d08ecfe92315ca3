//! The same kill on the emulator that we replace: how many acknowledged inserts are gone after it.
//!
//! Each round starts the emulator on the same folder, with its data on disk as it keeps it by default, lets the writers
//! insert and kills it under them. The next start shows what is left. Only inserts that were acknowledged count.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use http::Method;

use super::model::read_partition;
use super::{CrashOptions, TABLE, create_table};
use crate::{Azurite, AzuriteService, Connection, Request};

/// What the emulator acknowledged, and what of it was gone after the kills.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmulatorLosses {
    /// Kills.
    pub rounds: usize,
    /// Inserts that were acknowledged.
    pub acknowledged: u64,
    /// Of these, how many were gone at the next start.
    pub lost: u64,
}

impl fmt::Display for EmulatorLosses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, acknowledged, lost } = self;
        write!(f, "the emulator, {rounds} kills: {acknowledged} acknowledged inserts, {lost} lost")
    }
}

/// Kills the emulator under load, and counts.
pub fn kill_emulator(options: &CrashOptions) -> Result<EmulatorLosses, String> {
    let folder = tempfile::Builder::new().prefix("tavola-emulator-").tempdir();
    let folder = folder.map_err(|error| format!("no data folder ({error})"))?;
    let mut rng = Rng::with_seed(options.seed);
    let mut losses = EmulatorLosses { rounds: options.rounds, ..EmulatorLosses::default() };
    for round in 0..options.rounds {
        let acknowledged = insert_and_kill(folder.path(), options, round, &mut rng)?;
        let emulator = start(folder.path())?;
        let mut connection = connect(emulator.endpoint())?;
        for (writer, acknowledged) in acknowledged.into_iter().enumerate() {
            // A table that is gone has lost everything.
            let found = read_partition(&mut connection, &partition(round, writer)).unwrap_or_default();
            losses.acknowledged += acknowledged;
            losses.lost +=
                (0..acknowledged).filter(|number| !found.contains_key(&row(*number))).count() as u64;
        }
    }
    Ok(losses)
}

/// Gives how many inserts of each writer were acknowledged before the kill.
fn insert_and_kill(
    folder: &Path,
    options: &CrashOptions,
    round: usize,
    rng: &mut Rng,
) -> Result<Vec<u64>, String> {
    let emulator = start(folder)?;
    let endpoint = emulator.endpoint().to_owned();
    if round == 0 {
        create_table(&mut connect(&endpoint)?, TABLE, &mut Vec::new())?;
    }
    let write_ms = rng.u64(20..options.write_ms_max.max(21));
    let endpoint = &endpoint;
    std::thread::scope(|scope| {
        let partitions = (0..options.writers).map(|writer| partition(round, writer));
        let threads: Vec<_> = partitions
            .map(|partition| scope.spawn(move || insert_until_killed(endpoint, &partition)))
            .collect();
        std::thread::sleep(Duration::from_millis(write_ms));
        // Dropping it kills it.
        drop(emulator);
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked".to_owned())).collect()
    })
}

fn insert_until_killed(endpoint: &str, partition: &str) -> u64 {
    let Ok(mut connection) = Connection::open(endpoint) else { return 0 };
    let mut number = 0;
    loop {
        let entity =
            format!(r#"{{"PartitionKey":"{partition}","RowKey":"{}","value":0,"padding":""}}"#, row(number));
        let insert = Request::new(Method::POST, format!("/{TABLE}")).with_json(entity);
        let is_acknowledged =
            connection.send(&insert).is_ok_and(|response| (200..300).contains(&response.status));
        if !is_acknowledged {
            return number;
        }
        number += 1;
    }
}

fn start(folder: &Path) -> Result<Azurite, String> {
    Azurite::start_at(AzuriteService::Table, folder).map_err(|error| format!("no emulator ({error})"))
}

fn connect(endpoint: &str) -> Result<Connection, String> {
    Connection::open(endpoint).map_err(|error| format!("no connection ({error})"))
}

fn partition(round: usize, writer: usize) -> String {
    format!("round {round} writer {writer}")
}

fn row(number: u64) -> String {
    format!("{number:06}")
}
