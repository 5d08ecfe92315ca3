//! What one writer was promised of its blobs, and how to hold the server against it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use http::Method;

use super::{CONTAINER, expect, request};
use crate::Connection;

/// Blobs of a writer.
pub const BLOBS: usize = 5;
/// Snapshots and versions of a writer that are checked.
const FORMER_MAX: usize = 16;

/// The type of a blob, in the service's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Block,
    Append,
    Page,
}

impl Shape {
    pub fn header(self) -> &'static str {
        match self {
            Self::Block => "BlockBlob",
            Self::Append => "AppendBlob",
            Self::Page => "PageBlob",
        }
    }
}

/// A blob as it was acknowledged.
#[derive(Clone)]
pub struct State {
    pub shape: Shape,
    pub bytes: Arc<Vec<u8>>,
    /// Its ETag, if it was told.
    pub etag: Option<String>,
}

/// A change that was sent and never answered.
pub struct Pending {
    pub blob: usize,
    pub after: Option<State>,
}

/// What a blob was once, and still is under this name.
struct Former {
    blob: usize,
    /// `snapshot` or `versionid`.
    parameter: &'static str,
    value: String,
    state: State,
}

/// All blobs of one writer.
pub struct WriterModel {
    number: usize,
    pub blobs: Vec<Option<State>>,
    pub pending: Option<Pending>,
    /// Snapshots and versions, newest last.
    former: VecDeque<Former>,
}

impl WriterModel {
    pub fn new(number: usize) -> Self {
        Self { number, blobs: vec![None; BLOBS], pending: None, former: VecDeque::new() }
    }

    /// Remembers a snapshot or a version. The oldest ones are forgotten, so that a check takes no longer in the end.
    pub fn keep(&mut self, blob: usize, parameter: &'static str, value: String, state: State) {
        self.former.push_back(Former { blob, parameter, value, state });
        if self.former.len() > FORMER_MAX {
            self.former.pop_front();
        }
    }

    /// A blob was deleted, with its snapshots.
    pub fn delete(&mut self, blob: usize) {
        self.blobs[blob] = None;
        self.former.retain(|former| former.blob != blob || former.parameter != "snapshot");
    }

    /// Path and query of a blob, without the query's question mark.
    pub fn target(&self, blob: usize) -> String {
        format!("/{CONTAINER}/{}", self.name(blob))
    }

    fn name(&self, blob: usize) -> String {
        format!("writer-{}/blob-{blob}", self.number)
    }

    /// Reads every blob and compares. Afterwards nothing is pending; gives whether the pending change had been kept.
    pub fn check(&mut self, connection: &mut Connection) -> Result<bool, String> {
        let mut kept = false;
        let pending = self.pending.take();
        for blob in 0..BLOBS {
            let found = read(connection, &self.target(blob))?;
            let pending = pending.as_ref().filter(|pending| pending.blob == blob);
            let is_before = same(found.as_ref(), self.blobs[blob].as_ref());
            let is_after = pending.is_some_and(|pending| same(found.as_ref(), pending.after.as_ref()));
            if !is_before && !is_after {
                let told = [found.as_ref(), self.blobs[blob].as_ref()].map(tell);
                let after = pending.map(|pending| tell(pending.after.as_ref()));
                return Err(format!(
                    "{}: found {}, acknowledged was {}, in flight {after:?}",
                    self.name(blob),
                    told[0],
                    told[1]
                ));
            }
            kept |= is_after && !is_before;
            match found {
                Some(found) => self.blobs[blob] = Some(found),
                None => self.delete(blob),
            }
        }
        for Former { blob, parameter, value, state } in &self.former {
            let found = read(connection, &format!("{}?{parameter}={value}", self.target(*blob)))?;
            if found.as_ref().is_none_or(|found| found.shape != state.shape || found.bytes != state.bytes) {
                let told = [found.as_ref(), Some(state)].map(tell);
                let name = self.name(*blob);
                return Err(format!("{parameter} {value} of {name}: found {}, was {}", told[0], told[1]));
            }
        }
        self.check_list(connection)?;
        Ok(kept)
    }

    /// A list shows the blobs that are there, and no others.
    fn check_list(&self, connection: &mut Connection) -> Result<(), String> {
        let prefix = format!("writer-{}/", self.number);
        let target = format!("/{CONTAINER}?restype=container&comp=list&prefix={prefix}");
        let text = expect(connection, 200, &request(Method::GET, &target))?.text();
        let listed: BTreeSet<&str> =
            text.split("<Name>").skip(1).filter_map(|part| part.split("</Name>").next()).collect();
        let names: Vec<String> =
            (0..BLOBS).filter(|blob| self.blobs[*blob].is_some()).map(|blob| self.name(blob)).collect();
        let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        if listed == known { Ok(()) } else { Err(format!("listed are {listed:?}, read were {known:?}")) }
    }
}

fn read(connection: &mut Connection, target: &str) -> Result<Option<State>, String> {
    let response = connection
        .send(&request(Method::GET, target))
        .map_err(|error| format!("GET {target} failed ({error})"))?;
    match response.status {
        404 => return Ok(None),
        200 => {}
        status => return Err(format!("GET {target} answered {status}: {}", response.text())),
    }
    let shape = [Shape::Block, Shape::Append, Shape::Page]
        .into_iter()
        .find(|shape| response.header("x-ms-blob-type") == Some(shape.header()))
        .ok_or_else(|| format!("GET {target} says no type"))?;
    let etag = response.header("etag").map(str::to_owned);
    Ok(Some(State { shape, bytes: Arc::new(response.body), etag }))
}

/// Whether what was found is this state. An ETag counts if it was told.
fn same(found: Option<&State>, state: Option<&State>) -> bool {
    match (found, state) {
        (None, None) => true,
        (Some(found), Some(state)) => {
            let has_etag = state.etag.is_none() || state.etag == found.etag;
            found.shape == state.shape && has_etag && found.bytes == state.bytes
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}

fn tell(state: Option<&State>) -> String {
    let Some(State { shape, bytes, etag }) = state else { return "no blob".to_owned() };
    let first: Vec<u8> = bytes.iter().copied().take(8).collect();
    format!("{} of {} bytes {first:?}, ETag {etag:?}", shape.header(), bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(bytes: &[u8], etag: Option<&str>) -> State {
        State { shape: Shape::Block, bytes: Arc::new(bytes.to_vec()), etag: etag.map(str::to_owned) }
    }

    #[test]
    fn a_blob_is_the_same_only_with_its_bytes_its_type_and_a_known_etag() {
        let found = state(b"abc", Some("1"));
        assert!(same(Some(&found), Some(&state(b"abc", None))));
        assert!(same(Some(&found), Some(&state(b"abc", Some("1")))));
        assert!(!same(Some(&found), Some(&state(b"abc", Some("2")))));
        assert!(!same(Some(&found), Some(&state(b"ab", None))));
        assert!(!same(Some(&found), Some(&State { shape: Shape::Page, ..state(b"abc", None) })));
        assert!(!same(None, Some(&found)) && !same(Some(&found), None) && same(None, None));
    }
}
