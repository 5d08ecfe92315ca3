//! Transactions that give several entities of a partition the same value, and readers that must never see two.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use http::Method;
use tavola_testkit::{Request, Response};

use crate::count::{Counts, Ended};
use crate::entities::TABLE;
use crate::pool::{Answer, Client, Pool};

pub const WORKERS: usize = 4;
const PARTITIONS: usize = 2;
const ROWS: usize = 5;
const PAUSE: Duration = Duration::from_millis(30);
const TRIES_MAX: usize = 100;

pub fn work(
    worker: usize,
    mut rng: Rng,
    pool: &Pool,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<(), String> {
    let mut servers = Client::tables(pool, worker);
    let mut number = 0u64;
    while !stop.load(Ordering::SeqCst) {
        number += 1;
        let partition = rng.usize(..PARTITIONS);
        let ended = if rng.bool() {
            write(&mut servers, partition, &format!("{worker}-{number}"))?
        } else {
            read(&mut servers, partition)?
        };
        counts.add(ended);
        if rng.u8(..20) == 0 {
            servers.turn();
        }
        std::thread::sleep(if ended == Ended::Answered { PAUSE } else { PAUSE * 4 });
    }
    Ok(())
}

/// Reads every partition at the end.
pub fn check_all(pool: &Pool) -> Result<(), String> {
    let mut servers = Client::tables(pool, 0);
    for partition in 0..PARTITIONS {
        for _ in 0..TRIES_MAX {
            if read(&mut servers, partition)? == Ended::Answered {
                break;
            }
            std::thread::sleep(PAUSE * 4);
        }
    }
    Ok(())
}

fn write(servers: &mut Client<'_>, partition: usize, value: &str) -> Result<Ended, String> {
    let Some(endpoint) = servers.endpoint() else {
        servers.turn();
        return Ok(Ended::Refused);
    };
    let mut body = String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
    for row in 0..ROWS {
        let json = format!("{{\"value\":\"{value}\"}}");
        body.push_str("--changeset_c\r\nContent-Type: application/http\r\n");
        body.push_str("Content-Transfer-Encoding: binary\r\n\r\n");
        body.push_str(&format!(
            "PUT {endpoint}/{TABLE}(PartitionKey='pair{partition}',RowKey='{row}') HTTP/1.1\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{json}\r\n",
            json.len()
        ));
    }
    body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
    let request = Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body);
    match servers.send(&request) {
        Answer::NotSent => Ok(Ended::Refused),
        Answer::Lost => Ok(Ended::Unknown),
        Answer::Received(response) => judge(&response),
    }
}

fn judge(response: &Response) -> Result<Ended, String> {
    let text = response.text();
    if response.status == 503 || text.contains("HTTP/1.1 503") {
        return Ok(Ended::Refused);
    }
    if response.status >= 500 || text.contains("HTTP/1.1 5") {
        return Ok(Ended::Unknown);
    }
    if response.status != 202 || text.contains("HTTP/1.1 4") {
        return Err(format!("transaction answered {}: {text}", response.status));
    }
    Ok(Ended::Answered)
}

fn read(servers: &mut Client<'_>, partition: usize) -> Result<Ended, String> {
    let target = format!("/{TABLE}()?$filter=PartitionKey%20eq%20'pair{partition}'");
    match servers.send(&Request::get(target)) {
        Answer::NotSent => Ok(Ended::Refused),
        Answer::Lost => Ok(Ended::Unknown),
        Answer::Received(response) if response.status == 503 => Ok(Ended::Refused),
        Answer::Received(response) if response.status >= 500 => Ok(Ended::Unknown),
        Answer::Received(response) if response.status == 200 => {
            check_whole(&response).map(|()| Ended::Answered)
        }
        Answer::Received(response) => Err(format!("query answered {}: {}", response.status, response.text())),
    }
}

/// All entities with one value, or none.
fn check_whole(response: &Response) -> Result<(), String> {
    let body: serde_json::Value =
        serde_json::from_slice(&response.body).map_err(|error| format!("unreadable answer ({error})"))?;
    let entities = body["value"].as_array().ok_or("a query answered no list")?;
    let values: BTreeSet<&str> = entities.iter().filter_map(|entity| entity["value"].as_str()).collect();
    let is_whole = entities.is_empty() || (entities.len() == ROWS && values.len() == 1);
    if is_whole { Ok(()) } else { Err(format!("TORN: a query saw half a transaction: {}", response.text())) }
}
