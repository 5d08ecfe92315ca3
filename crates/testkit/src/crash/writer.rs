//! One connection that writes to its own partition until the server is gone.

use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use http::Method;

use super::TABLE;
use super::model::{GROUP_ROWS, GROUPS, PartitionModel, Pending, Row, SINGLE_ROWS, padding};
use crate::{Connection, Request};

/// A writer and what it was promised.
pub struct Writer {
    pub model: PartitionModel,
    pub acknowledged: u64,
    pub transactions: u64,
    endpoint: String,
    rng: Rng,
}

/// A write that has been chosen: the request, what it leads to, and whether it is a transaction.
struct Write {
    request: Request,
    pending: Pending,
    is_transaction: bool,
}

impl Writer {
    pub fn new(endpoint: &str, model: PartitionModel, rng: Rng) -> Self {
        Self { model, acknowledged: 0, transactions: 0, endpoint: endpoint.to_owned(), rng }
    }

    /// Writes until the server stops answering. An error is an answer that must not be.
    pub fn write_until(mut self, stop: &AtomicBool) -> Result<Self, String> {
        let Ok(mut connection) = Connection::open(&self.endpoint) else { return Ok(self) };
        while !stop.load(Ordering::Relaxed) {
            let write = self.choose();
            let Ok(response) = connection.send(&write.request) else {
                self.model.pending = Some(write.pending);
                return Ok(self);
            };
            let text = response.text();
            let failed_inside = ["HTTP/1.1 4", "HTTP/1.1 5"].iter().any(|line| text.contains(line));
            if response.status >= 500 || text.contains("HTTP/1.1 5") {
                // The server could not say what became of it.
                self.model.pending = Some(write.pending);
                return Ok(self);
            }
            if response.status >= 300 || failed_inside {
                let Request { method, target, .. } = write.request;
                return Err(format!("{method} {target} answered {}: {text}", response.status));
            }
            self.acknowledge(write, response.header("etag"));
        }
        Ok(self)
    }

    fn acknowledge(&mut self, write: Write, etag: Option<&str>) {
        self.acknowledged += 1;
        self.transactions += u64::from(write.is_transaction);
        for key in write.pending.rows {
            match &write.pending.after {
                Some(row) => {
                    self.model.rows.insert(key, Row { etag: etag.map(str::to_owned), ..row.clone() })
                }
                None => self.model.rows.remove(&key),
            };
        }
    }

    fn choose(&mut self) -> Write {
        self.model.last_value += 1;
        if self.rng.u8(..) < 80 { self.choose_transaction() } else { self.choose_single() }
    }

    fn choose_single(&mut self) -> Write {
        let key = format!("single {:03}", self.rng.usize(..SINGLE_ROWS));
        let value = self.model.last_value;
        let target = self.entity_target(&key);
        let replaced = Row { value, merged: None, etag: None };
        let (request, after) = match self.model.rows.get(&key) {
            None => {
                let request = Request::new(Method::POST, format!("/{TABLE}"))
                    .with_json(self.entity_json(&key, value))
                    .with_header("Prefer", "return-no-content");
                (request, Some(replaced))
            }
            Some(row) => {
                let etag = row.etag.clone().unwrap_or_else(|| "*".to_owned());
                let (request, after) = match self.rng.u8(..4) {
                    0 => (Request::new(Method::DELETE, target), None),
                    1 | 2 => {
                        let body = self.entity_json(&key, value);
                        (Request::new(Method::PUT, target).with_json(body), Some(replaced))
                    }
                    _ => {
                        let merged = Row { merged: Some(value), ..row.clone() };
                        let body = format!("{{\"merged\":{value}}}");
                        (merge_request(target).with_json(body), Some(merged))
                    }
                };
                (request.with_header("If-Match", etag), after)
            }
        };
        Write { request, pending: Pending { rows: vec![key], after }, is_transaction: false }
    }

    /// All entities of a group are there with one value, or none of them is.
    fn choose_transaction(&mut self) -> Write {
        let group = self.rng.usize(..GROUPS);
        let value = self.model.last_value;
        let rows: Vec<String> = (0..GROUP_ROWS).map(|row| format!("group {group} {row:02}")).collect();
        let is_there = rows.first().is_some_and(|row| self.model.rows.contains_key(row));
        let is_delete = is_there && self.rng.u8(..4) == 0;
        let mut body =
            String::from("--batch_b\r\nContent-Type: multipart/mixed; boundary=changeset_c\r\n\r\n");
        for row in &rows {
            let target = format!("{}{}", self.endpoint, self.entity_target(row));
            let json = self.entity_json(row, value);
            let content = format!("Content-Type: application/json\r\nContent-Length: {}", json.len());
            let part = if is_delete {
                format!("DELETE {target} HTTP/1.1\r\nIf-Match: *\r\n\r\n")
            } else if is_there {
                format!("PUT {target} HTTP/1.1\r\nIf-Match: *\r\n{content}\r\n\r\n{json}\r\n")
            } else {
                let url = format!("{}/{TABLE}", self.endpoint);
                format!("POST {url} HTTP/1.1\r\nPrefer: return-no-content\r\n{content}\r\n\r\n{json}\r\n")
            };
            body.push_str("--changeset_c\r\nContent-Type: application/http\r\n");
            body.push_str("Content-Transfer-Encoding: binary\r\n\r\n");
            body.push_str(&part);
        }
        body.push_str("--changeset_c--\r\n\r\n--batch_b--\r\n");
        let request =
            Request::new(Method::POST, "/$batch").with_body("multipart/mixed; boundary=batch_b", body);
        let after = (!is_delete).then_some(Row { value, merged: None, etag: None });
        Write { request, pending: Pending { rows, after }, is_transaction: true }
    }

    fn entity_target(&self, row_key: &str) -> String {
        format!("/{TABLE}(PartitionKey='{}',RowKey='{row_key}')", self.model.partition).replace(' ', "%20")
    }

    fn entity_json(&self, row_key: &str, value: u32) -> String {
        format!(
            r#"{{"PartitionKey":"{}","RowKey":"{row_key}","value":{value},"padding":"{}"}}"#,
            self.model.partition,
            padding(value)
        )
    }
}

/// MERGE is a verb of the service's own.
fn merge_request(target: String) -> Request {
    let method = Method::from_bytes(b"MERGE").expect("a valid token");
    Request::new(method, target)
}
