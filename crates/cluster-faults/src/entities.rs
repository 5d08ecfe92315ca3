//! Clients that write, read and delete a few entities that they share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::Method;
use tavola_testkit::{Request, Response};

use crate::count::{Counts, Ended};
use crate::history::{History, Operation, Result as Outcome};
use crate::pool::{Answer, Client, Pool};

pub const CLIENTS: usize = 8;
pub const TABLE: &str = "Registers";
const PARTITIONS: usize = 4;
const ROWS: usize = 6;
const TRIES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

pub fn create_table(pool: &Pool) -> Result<(), String> {
    let request = Request::new(Method::POST, "/Tables").with_json(format!("{{\"TableName\":\"{TABLE}\"}}"));
    Client::tables(pool, 0).create("table", &request)
}

pub fn work(
    client: usize,
    mut rng: Rng,
    pool: &Pool,
    history: &History,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut servers = Client::tables(pool, client);
    let mut number = 0u64;
    while !stop.load(Ordering::SeqCst) {
        let key = format!("{}/{}", rng.usize(..PARTITIONS), rng.usize(..ROWS));
        number += 1;
        let value = format!("{client}-{number}");
        let operation = match rng.u8(..10) {
            0..4 => Operation::Get,
            4..7 => Operation::Put(value),
            7 | 8 => Operation::Insert(value),
            _ => Operation::Delete,
        };
        let ended = apply(client, &mut servers, &key, &operation, history)?;
        counts.add(ended);
        if rng.u8(..20) == 0 {
            servers.turn();
        }
        std::thread::sleep(if ended == Ended::Answered { PAUSE / 4 } else { PAUSE * 5 });
    }
    Ok(())
}

/// Reads every entity at the end, so that a write that was lost is missed.
pub fn read_all(pool: &Pool, history: &History) -> Result<(), String> {
    for index in 0..pool.len() {
        let mut servers = Client::tables(pool, index);
        for key in (0..PARTITIONS).flat_map(|part| (0..ROWS).map(move |row| format!("{part}/{row}"))) {
            let answered = (0..TRIES_MAX).any(|_| {
                let ended = apply(CLIENTS + index, &mut servers, &key, &Operation::Get, history);
                let is_answered = ended == Ok(Ended::Answered);
                if !is_answered {
                    std::thread::sleep(PAUSE * 5);
                }
                is_answered
            });
            if !answered {
                return Err(format!("entity {key} cannot be read after all faults"));
            }
        }
    }
    Ok(())
}

fn apply(
    client: usize,
    servers: &mut Client<'_>,
    key: &str,
    operation: &Operation,
    history: &History,
) -> Result<Ended, String> {
    let call = history.now();
    let outcome = match servers.send(&request(key, operation)) {
        Answer::NotSent => return Ok(Ended::Refused),
        Answer::Lost => Outcome::Unknown,
        Answer::Received(response) if response.status == 503 => return Ok(Ended::Refused),
        Answer::Received(response) if response.status >= 500 => Outcome::Unknown,
        Answer::Received(response) => outcome_of(operation, &response)?,
    };
    let is_unknown = matches!(outcome, Outcome::Unknown);
    // A read that was not answered says nothing.
    if !(is_unknown && matches!(operation, Operation::Get)) {
        history.keep(client, key, operation, call, &outcome);
    }
    Ok(if is_unknown { Ended::Unknown } else { Ended::Answered })
}

fn request(key: &str, operation: &Operation) -> Request {
    let (partition, row) = key.split_once('/').unwrap_or((key, ""));
    let target = format!("/{TABLE}(PartitionKey='{partition}',RowKey='{row}')");
    match operation {
        Operation::Get => Request::get(target),
        Operation::Delete => Request::new(Method::DELETE, target).with_header("If-Match", "*"),
        Operation::Put(value) => {
            Request::new(Method::PUT, target).with_json(format!("{{\"value\":\"{value}\"}}"))
        }
        Operation::Insert(value) => Request::new(Method::POST, format!("/{TABLE}")).with_json(format!(
            "{{\"PartitionKey\":\"{partition}\",\"RowKey\":\"{row}\",\"value\":\"{value}\"}}"
        )),
    }
}

fn outcome_of(operation: &Operation, response: &Response) -> Result<Outcome, String> {
    let code = response.header("x-ms-error-code").unwrap_or_default();
    match (operation, response.status) {
        (Operation::Get, 200) => {
            let body: serde_json::Value = serde_json::from_slice(&response.body)
                .map_err(|error| format!("unreadable answer ({error})"))?;
            Ok(Outcome::Done(body["value"].as_str().map(str::to_owned)))
        }
        (Operation::Get, 404) if is_missing(code, response) => Ok(Outcome::Done(None)),
        (Operation::Put(_) | Operation::Delete, 204) | (Operation::Insert(_), 201 | 204) => {
            Ok(Outcome::Done(None))
        }
        (Operation::Delete, 404) if is_missing(code, response) => Ok(Outcome::Refused),
        (Operation::Insert(_), 409) if response.text().contains("EntityAlreadyExists") => {
            Ok(Outcome::Refused)
        }
        (_, status) => Err(format!("{operation:?} answered {status}: {}", response.text())),
    }
}

/// The entity is missing, not the table.
fn is_missing(code: &str, response: &Response) -> bool {
    code == "ResourceNotFound" || response.text().contains("ResourceNotFound")
}
