//! One connection that changes its own blobs in every way until the server is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fastrand::Rng;
use http::Method;

use super::model::{BLOBS, Pending, Shape, State, WriterModel};
use super::{random_bytes, request};
use crate::{Connection, Request, Response};

const PAGE: usize = 512;
const PAGE_BLOB_BYTES: usize = 256 * 1024;
/// An append blob is replaced when it has grown to this.
const APPENDED_BYTES_MAX: usize = 2 << 20;

/// A writer and what it was promised.
pub struct Writer {
    pub model: WriterModel,
    pub acknowledged: u64,
    pub acknowledged_bytes: u64,
    endpoint: String,
    rng: Rng,
}

/// A change that has been chosen: requests that lead up to it and change nothing, the one that does it, and what it
/// does.
struct Change {
    before: Vec<Request>,
    request: Request,
    effect: Effect,
}

enum Effect {
    /// The blob becomes this, or is gone.
    Becomes(Option<(Shape, Arc<Vec<u8>>)>),
    /// It stays as it is, also under another name.
    Snapshot(State),
}

impl Writer {
    pub fn new(endpoint: &str, model: WriterModel, rng: Rng) -> Self {
        Self { model, acknowledged: 0, acknowledged_bytes: 0, endpoint: endpoint.to_owned(), rng }
    }

    /// Changes blobs until the server stops answering. An error is an answer that must not be.
    pub fn write_until(mut self, stop: &AtomicBool) -> Result<Self, String> {
        let Ok(mut connection) = Connection::open_blob(&self.endpoint) else { return Ok(self) };
        'changes: while !stop.load(Ordering::Relaxed) {
            let blob = self.rng.usize(..BLOBS);
            let Change { before, request, effect } = self.choose(blob);
            for request in &before {
                let Ok(response) = connection.send(request) else { return Ok(self) };
                if response.status >= 500 {
                    continue 'changes;
                }
                check(request, &response)?;
            }
            match connection.send(&request) {
                Ok(response) if response.status < 500 => {
                    check(&request, &response)?;
                    self.acknowledged += 1;
                    self.acknowledged_bytes += request.body.len() as u64;
                    self.note(blob, effect, &response);
                }
                // The server could not say what became of it.
                _ => {
                    if let Effect::Becomes(after) = effect {
                        let after = after.map(|(shape, bytes)| State { shape, bytes, etag: None });
                        self.model.pending = Some(Pending { blob, after });
                    }
                    return Ok(self);
                }
            }
        }
        Ok(self)
    }

    /// A change was acknowledged.
    fn note(&mut self, blob: usize, effect: Effect, response: &Response) {
        let header = |name| response.header(name).map(str::to_owned);
        match effect {
            Effect::Becomes(None) => self.model.delete(blob),
            Effect::Becomes(Some((shape, bytes))) => {
                let state = State { shape, bytes, etag: header("etag") };
                if let (Shape::Block, Some(version)) = (shape, header("x-ms-version-id")) {
                    self.model.keep(blob, "versionid", version, state.clone());
                }
                self.model.blobs[blob] = Some(state);
            }
            Effect::Snapshot(state) => {
                if let Some(time) = header("x-ms-snapshot") {
                    self.model.keep(blob, "snapshot", time, state);
                }
            }
        }
    }

    fn choose(&mut self, blob: usize) -> Change {
        let target = self.model.target(blob);
        let state = self.model.blobs[blob].clone();
        let chance = self.rng.u8(..12);
        if chance == 11
            && let Some(copy) = self.copy(&target, state.as_ref())
        {
            return copy;
        }
        match (state, chance) {
            (Some(_), 0) => {
                let request =
                    request(Method::DELETE, &target).with_header("x-ms-delete-snapshots", "include");
                Change { before: Vec::new(), request, effect: Effect::Becomes(None) }
            }
            (Some(state), 10) => {
                let request = put(&format!("{target}?comp=snapshot"), Vec::new());
                Change { before: Vec::new(), request, effect: Effect::Snapshot(state) }
            }
            (Some(State { shape: Shape::Append, bytes, .. }), 1..=7) if bytes.len() < APPENDED_BYTES_MAX => {
                let block = self.upload();
                let appended = [bytes.as_slice(), block.as_slice()].concat();
                upload(put(&format!("{target}?comp=appendblock"), block), Shape::Append, appended)
            }
            (Some(State { shape: Shape::Page, bytes, .. }), 1..=7) => self.write_pages(&target, &bytes),
            (_, 1) => new_blob(&target, Shape::Append),
            (_, 2) => new_blob(&target, Shape::Page),
            (None | Some(State { shape: Shape::Block, .. }), 3..=5) => self.blocks(&target),
            _ => {
                let bytes = self.upload();
                let request = put(&target, bytes.clone()).with_header("x-ms-blob-type", "BlockBlob");
                upload(request, Shape::Block, bytes)
            }
        }
    }

    /// A copy of another blob, if there is one that this blob can become.
    fn copy(&mut self, target: &str, state: Option<&State>) -> Option<Change> {
        let source = self.rng.usize(..BLOBS);
        let State { shape, bytes, .. } = self.model.blobs[source].clone()?;
        let source = self.model.target(source);
        if source == target || state.is_some_and(|state| state.shape != shape) {
            return None;
        }
        let source = format!("{}{source}", self.endpoint);
        let request = put(target, Vec::new()).with_header("x-ms-copy-source", source);
        Some(Change { before: Vec::new(), request, effect: Effect::Becomes(Some((shape, bytes))) })
    }

    fn blocks(&mut self, target: &str) -> Change {
        let (mut before, mut list, mut bytes) = (Vec::new(), String::new(), Vec::new());
        for number in 0..self.rng.usize(1..4) {
            let block = loop {
                let block = self.upload();
                if !block.is_empty() {
                    break block;
                }
            };
            // Four characters of base64, three bytes of an id.
            let id = format!("b{:03}", self.rng.u16(..10) * 10 + u16::try_from(number).unwrap_or(0));
            bytes.extend_from_slice(&block);
            before.push(put(&format!("{target}?comp=block&blockid={id}"), block));
            list.push_str(&format!("<Latest>{id}</Latest>"));
        }
        let request = put(&format!("{target}?comp=blocklist"), format!("<BlockList>{list}</BlockList>"));
        Change { before, ..upload(request, Shape::Block, bytes) }
    }

    fn write_pages(&mut self, target: &str, bytes: &[u8]) -> Change {
        let first = self.rng.usize(..PAGE_BLOB_BYTES / PAGE);
        let count = self.rng.usize(1..=(PAGE_BLOB_BYTES / PAGE - first).min(200));
        let (from, to) = (first * PAGE, (first + count) * PAGE);
        let mut bytes = bytes.to_vec();
        let (action, pages) = if self.rng.u8(..4) == 0 {
            bytes[from..to].fill(0);
            ("clear", Vec::new())
        } else {
            let pages = random_bytes(&mut self.rng, to - from);
            bytes[from..to].copy_from_slice(&pages);
            ("update", pages)
        };
        let request = put(&format!("{target}?comp=page"), pages)
            .with_header("x-ms-page-write", action)
            .with_header("x-ms-range", format!("bytes={from}-{}", to - 1));
        upload(request, Shape::Page, bytes)
    }

    /// Bytes to upload: few that stay in their row, some, or many.
    fn upload(&mut self) -> Vec<u8> {
        let length = match self.rng.u8(..8) {
            0..=3 => self.rng.usize(1..=4096),
            4..=6 => self.rng.usize(4097..200_000),
            _ => self.rng.usize(600_000..2_500_000),
        };
        random_bytes(&mut self.rng, length)
    }
}

fn new_blob(target: &str, shape: Shape) -> Change {
    let create = put(target, Vec::new()).with_header("x-ms-blob-type", shape.header());
    let (request, bytes) = match shape {
        Shape::Page => {
            let length = PAGE_BLOB_BYTES.to_string();
            (create.with_header("x-ms-blob-content-length", length), vec![0; PAGE_BLOB_BYTES])
        }
        Shape::Block | Shape::Append => (create, Vec::new()),
    };
    upload(request, shape, bytes)
}

/// One request that makes these bytes of a blob.
fn upload(request: Request, shape: Shape, bytes: Vec<u8>) -> Change {
    Change { before: Vec::new(), request, effect: Effect::Becomes(Some((shape, Arc::new(bytes)))) }
}

pub(super) fn put(target: &str, body: impl Into<Vec<u8>>) -> Request {
    let mut request = request(Method::PUT, target);
    request.body = body.into();
    request
}

fn check(request: &Request, response: &Response) -> Result<(), String> {
    if response.status < 300 {
        return Ok(());
    }
    let Request { method, target, .. } = request;
    Err(format!("{method} {target} answered {}: {}", response.status, response.text()))
}
