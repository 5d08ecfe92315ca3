//! Clients that write, read and delete a few blobs that they share: as a whole, and by blocks.
//!
//! The bytes of a blob follow from its value, which is their first line. So a blob of which one byte is from another
//! upload is noticed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::Method;
use tavola_testkit::{Request, Response};

use crate::count::{Counts, Ended};
use crate::history::{History, Operation, Result as Outcome};
use crate::pool::{Answer, Client, Pool};

pub const CLIENTS: usize = 4;
pub const CONTAINER: &str = "registers";
/// Clients of blobs in the history, behind those of entities.
const FIRST_CLIENT: usize = 100;
const BLOBS: usize = 6;
const BLOCKS: usize = 3;
const TRIES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(60);

pub fn create_container(pool: &Pool) -> Result<(), String> {
    let request = blob_request(Method::PUT, format!("/{CONTAINER}?restype=container"));
    Client::blobs(pool, 0).create("container", &request)
}

pub fn work(
    client: usize,
    mut rng: Rng,
    pool: &Pool,
    history: &History,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut worker = Worker { client: FIRST_CLIENT + client, servers: Client::blobs(pool, client), history };
    let mut number = 0u64;
    while !stop.load(Ordering::SeqCst) {
        let blob = rng.usize(..BLOBS);
        number += 1;
        let value = format!("{client}-{number}");
        let ended = match rng.u8(..10) {
            0..4 => worker.apply(blob, &Operation::Get)?,
            4 | 5 => worker.apply(blob, &Operation::Put(value))?,
            6 => worker.put_blocks(blob, value, number)?,
            7 | 8 => worker.apply(blob, &Operation::Insert(value))?,
            _ => worker.apply(blob, &Operation::Delete)?,
        };
        counts.add(ended);
        if rng.u8(..20) == 0 {
            worker.servers.turn();
        }
        std::thread::sleep(if ended == Ended::Answered { PAUSE } else { PAUSE * 4 });
    }
    Ok(())
}

/// Reads every blob at the end, from every server, so that a write that was lost is missed.
pub fn read_all(pool: &Pool, history: &History) -> Result<(), String> {
    for index in 0..pool.len() {
        let client = FIRST_CLIENT + CLIENTS + index;
        let mut worker = Worker { client, servers: Client::blobs(pool, index), history };
        for blob in 0..BLOBS {
            let mut is_answered = false;
            for _ in 0..TRIES_MAX {
                is_answered = worker.apply(blob, &Operation::Get)? == Ended::Answered;
                if is_answered {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            if !is_answered {
                return Err(format!("blob {blob} cannot be read after all faults"));
            }
        }
    }
    Ok(())
}

pub fn blob_request(method: Method, target: String) -> Request {
    Request { method, target, headers: Vec::new(), body: Vec::new() }
        .with_header("x-ms-version", "2021-12-02")
}

struct Worker<'a> {
    client: usize,
    servers: Client<'a>,
    history: &'a History,
}

impl Worker<'_> {
    fn apply(&mut self, blob: usize, operation: &Operation) -> Result<Ended, String> {
        self.send(blob, operation, &request(blob, operation))
    }

    /// Uploads blocks, and then puts the blob together. Nobody sees the blocks before.
    fn put_blocks(&mut self, blob: usize, value: String, upload: u64) -> Result<Ended, String> {
        let bytes = bytes_of(&value);
        let mut list = String::new();
        for (number, block) in bytes.chunks(bytes.len().div_ceil(BLOCKS)).enumerate() {
            // Eight characters of base64. No other upload has blocks of these names: a list that comes late takes none of them.
            let id = format!("{:02}{:05}{number}", self.client % 100, upload % 100_000);
            list.push_str(&format!("<Latest>{id}</Latest>"));
            let target = format!("{}?comp=block&blockid={id}", target_of(blob));
            let mut request = blob_request(Method::PUT, target);
            request.body = block.to_vec();
            match self.servers.send(&request) {
                Answer::Received(response) if response.status == 201 => {}
                Answer::Received(response) if response.status >= 500 => return Ok(Ended::Refused),
                Answer::NotSent | Answer::Lost => return Ok(Ended::Refused),
                Answer::Received(response) => {
                    return Err(format!("put block answered {}: {}", response.status, response.text()));
                }
            }
        }
        let mut request = blob_request(Method::PUT, format!("{}?comp=blocklist", target_of(blob)));
        request.body = format!("<BlockList>{list}</BlockList>").into_bytes();
        self.send(blob, &Operation::Put(value), &request)
    }

    fn send(&mut self, blob: usize, operation: &Operation, request: &Request) -> Result<Ended, String> {
        let call = self.history.now();
        let outcome = match self.servers.send(request) {
            Answer::NotSent => return Ok(Ended::Refused),
            Answer::Lost => Outcome::Unknown,
            Answer::Received(response) if response.status == 503 => return Ok(Ended::Refused),
            Answer::Received(response) if response.status >= 500 => Outcome::Unknown,
            Answer::Received(response) => match outcome_of(operation, &response)? {
                Some(outcome) => outcome,
                None => return Ok(Ended::Answered),
            },
        };
        let is_unknown = matches!(outcome, Outcome::Unknown);
        // A read that was not answered says nothing.
        if !(is_unknown && matches!(operation, Operation::Get)) {
            self.history.keep(self.client, &format!("blob/{blob}"), operation, call, &outcome);
        }
        Ok(if is_unknown { Ended::Unknown } else { Ended::Answered })
    }
}

fn target_of(blob: usize) -> String {
    format!("/{CONTAINER}/{blob}")
}

fn request(blob: usize, operation: &Operation) -> Request {
    let target = target_of(blob);
    let put = |value: &str| {
        let mut request =
            blob_request(Method::PUT, target.clone()).with_header("x-ms-blob-type", "BlockBlob");
        request.body = bytes_of(value);
        request
    };
    match operation {
        Operation::Get => blob_request(Method::GET, target),
        Operation::Delete => blob_request(Method::DELETE, target),
        Operation::Put(value) => put(value),
        Operation::Insert(value) => put(value).with_header("If-None-Match", "*"),
    }
}

/// `None` if it had no effect and says nothing of the blob.
fn outcome_of(operation: &Operation, response: &Response) -> Result<Option<Outcome>, String> {
    let code = response.header("x-ms-error-code").unwrap_or_default();
    match (operation, response.status, code) {
        (Operation::Get, 200, _) => Ok(Some(Outcome::Done(Some(value_of(&response.body)?)))),
        (Operation::Get, 404, "BlobNotFound") => Ok(Some(Outcome::Done(None))),
        (Operation::Put(_) | Operation::Insert(_), 201, _) | (Operation::Delete, 202, _) => {
            Ok(Some(Outcome::Done(None)))
        }
        (Operation::Delete, 404, "BlobNotFound") | (Operation::Insert(_), 409, "BlobAlreadyExists") => {
            Ok(Some(Outcome::Refused))
        }
        // Another upload has replaced the blob, and its blocks went with it.
        (Operation::Put(_), 400, "InvalidBlockList") => Ok(None),
        (_, status, _) => Err(format!("{operation:?} answered {status}: {}", response.text())),
    }
}

/// Bytes that are in their row, in one chunk, or in several.
fn bytes_of(value: &str) -> Vec<u8> {
    let seed = value.bytes().fold(0u64, |seed, byte| seed.wrapping_mul(131).wrapping_add(byte.into()));
    let mut rng = Rng::with_seed(seed);
    let length = match rng.u8(..8) {
        0..4 => rng.usize(16..4096),
        4..7 => rng.usize(4096..300_000),
        _ => rng.usize(1_200_000..2_500_000),
    };
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    let first_line = format!("{value}\n");
    bytes[..first_line.len()].copy_from_slice(first_line.as_bytes());
    bytes
}

fn value_of(bytes: &[u8]) -> Result<String, String> {
    let first_line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let value = String::from_utf8_lossy(first_line).into_owned();
    if bytes_of(&value) == bytes {
        Ok(value)
    } else {
        Err(format!("TORN: a blob of {} bytes is not what {value:.20} wrote", bytes.len()))
    }
}
