//! What was done with single entities and when, one line of JSON each.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use serde_json::json;

/// The file, and the clock of its times.
pub struct History {
    started: Instant,
    file: Mutex<BufWriter<File>>,
}

/// What was asked of an entity.
#[derive(Clone, Debug)]
pub enum Operation {
    Put(String),
    Insert(String),
    Delete,
    Get,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Result {
    /// It was done; a get found this, or nothing.
    Done(Option<String>),
    /// It was refused because the entity was there, or because it was not.
    Refused,
    /// Nobody knows whether it was done.
    Unknown,
}

impl History {
    pub fn new(path: &str) -> std::result::Result<Self, String> {
        let file = File::create(path).map_err(|error| format!("{path} ({error})"))?;
        Ok(Self { started: Instant::now(), file: Mutex::new(BufWriter::new(file)) })
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keeps an operation that was called at `call` and has ended now.
    pub fn keep(&self, client: usize, key: &str, operation: &Operation, call: u64, result: &Result) {
        let (kind, value) = match operation {
            Operation::Put(value) => ("put", Some(value)),
            Operation::Insert(value) => ("insert", Some(value)),
            Operation::Delete => ("delete", None),
            Operation::Get => ("get", None),
        };
        let (outcome, found) = match result {
            Result::Done(found) => ("done", found.as_ref()),
            Result::Refused => ("refused", None),
            Result::Unknown => ("unknown", None),
        };
        let line = json!({
            "client": client, "key": key, "kind": kind, "value": value.map_or("", String::as_str),
            "outcome": outcome, "found": found.map_or("", String::as_str), "call": call, "return": self.now(),
        });
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // A failed write shows when the file is finished.
        let _ = writeln!(file, "{line}");
    }

    pub fn finish(&self) -> std::result::Result<(), String> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.flush().map_err(|error| format!("the history cannot be written ({error})"))
    }
}
