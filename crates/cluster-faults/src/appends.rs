//! Clients that append to one blob: what was acknowledged is in it once, and nothing is in it twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::Method;

use crate::blobs::{CONTAINER, blob_request};
use crate::count::{Counts, Ended};
use crate::pool::{Answer, Client, Pool};

pub const CLIENTS: usize = 2;
/// Bytes of a block, with the line end.
const LINE_BYTES: usize = 64;
const TRIES_MAX: usize = 100;
const PAUSE: Duration = Duration::from_millis(80);

/// What was appended, and whether that was acknowledged.
#[derive(Default)]
pub struct Log(Mutex<BTreeMap<String, bool>>);

impl Log {
    pub fn create(pool: &Pool) -> Result<Self, String> {
        let request = blob_request(Method::PUT, target()).with_header("x-ms-blob-type", "AppendBlob");
        Client::blobs(pool, 0).create("append blob", &request).map(|()| Self::default())
    }

    pub fn work(&self, client: usize, pool: &Pool, counts: &Counts, stop: &AtomicBool) -> Result<(), String> {
        let mut servers = Client::blobs(pool, client);
        for number in 0u64.. {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            let text = format!("{client}-{number}");
            let mut request = blob_request(Method::PUT, format!("{}?comp=appendblock", target()));
            request.body = format!("{text:<width$}\n", width = LINE_BYTES - 1).into_bytes();
            let ended = match servers.send(&request) {
                Answer::Received(response) if response.status == 201 => Ended::Answered,
                Answer::NotSent => Ended::Refused,
                Answer::Received(response) if response.status == 503 => Ended::Refused,
                Answer::Lost => Ended::Unknown,
                Answer::Received(response) if response.status >= 500 => Ended::Unknown,
                Answer::Received(response) => {
                    return Err(format!("append block answered {}: {}", response.status, response.text()));
                }
            };
            counts.add(ended);
            if ended != Ended::Refused {
                let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                log.insert(text, ended == Ended::Answered);
            }
            if number % 20 == 19 {
                servers.turn();
            }
            std::thread::sleep(if ended == Ended::Answered { PAUSE } else { PAUSE * 4 });
        }
        Ok(())
    }

    /// Reads the blob from every server at the end.
    pub fn check(&self, pool: &Pool) -> Result<(), String> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let acknowledged = log.values().filter(|is_acknowledged| **is_acknowledged).count();
        for index in 0..pool.len() {
            check_lines(&log, &read(pool, index)?)?;
        }
        println!("appended blocks: {acknowledged} acknowledged, none lost, none twice");
        Ok(())
    }
}

fn target() -> String {
    format!("/{CONTAINER}/log")
}

fn read(pool: &Pool, index: usize) -> Result<Vec<u8>, String> {
    let mut servers = Client::blobs(pool, index);
    for _ in 0..TRIES_MAX {
        match servers.send(&blob_request(Method::GET, target())) {
            Answer::Received(response) if response.status == 200 => return Ok(response.body),
            Answer::Received(response) if response.status < 500 => {
                return Err(format!("get of the log answered {}: {}", response.status, response.text()));
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
    Err("the log cannot be read after all faults".to_owned())
}

fn check_lines(log: &BTreeMap<String, bool>, bytes: &[u8]) -> Result<(), String> {
    let mut found = BTreeMap::<&str, usize>::new();
    for line in bytes.chunks(LINE_BYTES) {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let text = text.strip_suffix('\n').unwrap_or_default().trim_end();
        if !log.contains_key(text) {
            return Err(format!("TORN: the log has a block that nobody appended: {text:?}"));
        }
        *found.entry(text).or_default() += 1;
    }
    if let Some((text, count)) = found.iter().find(|(_, count)| **count > 1) {
        return Err(format!("TWICE: block {text} is in the log {count} times"));
    }
    match log.iter().find(|(text, is_acknowledged)| **is_acknowledged && !found.contains_key(text.as_str())) {
        Some((text, _)) => Err(format!("LOST: block {text} was acknowledged and is not in the log")),
        None => Ok(()),
    }
}
