//! A check of every stored byte, with the server stopped.

use std::path::Path;

use fjall::Readable;
use tavola_engine::SpaceId;

use crate::folder::{DataFolder, OpenError};
use crate::row::decode_key;
use crate::settings::LocalSettings;
use crate::store::{Space, Store};

/// Problems that are listed one by one; more are only counted.
const PROBLEMS_LISTED_MAX: usize = 100;

/// What a check found.
#[derive(Debug, Default)]
pub struct VerifyReport {
    /// Spaces looked at.
    pub spaces: usize,
    /// Good rows.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// How many problems there are.
    pub problem_count: u64,
    /// The first of them.
    pub problems: Vec<VerifyProblem>,
}

/// Something that cannot be trusted.
#[derive(Debug)]
pub struct VerifyProblem {
    /// In which space.
    pub space: SpaceId,
    /// What is wrong.
    pub what: String,
}

impl VerifyReport {
    /// Whether everything can be trusted.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }

    fn add_problem(&mut self, space: SpaceId, what: impl ToString) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(VerifyProblem { space, what: what.to_string() });
        }
    }
}

/// Reads every row of a data folder that no server uses.
pub fn verify(data_dir: &Path) -> Result<VerifyReport, OpenError> {
    let folder = DataFolder::open_existing(data_dir)?;
    let store = Store::open(folder, &LocalSettings::new(data_dir))?;
    let mut report = VerifyReport::default();
    for space in store.spaces() {
        report.spaces += 1;
        verify_space(&store, &space, &mut report);
    }
    if let Err(error) = store.last_tick() {
        report.add_problem(SpaceId::CATALOG, error);
    }
    Ok(report)
}

fn verify_space(store: &Store, space: &Space, report: &mut VerifyReport) {
    let mut scratch = Vec::new();
    for entry in store.snapshot().iter(&space.keyspace) {
        let (key, value) = match entry.into_inner() {
            Ok(entry) => entry,
            Err(error) => {
                // The store cannot step over a block that it cannot read.
                report.add_problem(space.id, error);
                return;
            }
        };
        let bytes = (key.len() + value.len()) as u64;
        if let Err(error) = space.decode(&key, value.into()) {
            report.add_problem(space.id, error);
        } else if decode_key(&key, &mut scratch).is_none() {
            report.add_problem(space.id, "key is malformed");
        } else {
            report.rows += 1;
            report.bytes += bytes;
        }
    }
}
