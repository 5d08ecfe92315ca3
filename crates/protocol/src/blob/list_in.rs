//! Lists of containers and blobs to what they tell a client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use tavola_model::{BlobHeaders, BlobType, DateTime, LeaseState};

use super::answer_in::read_lease_state;
use crate::answer_in::{Answer, AnswerError};
use crate::xml::{self, Element};

/// One page of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainersPage {
    /// The containers, by name.
    pub containers: Vec<FoundContainer>,
    /// The marker of the next page.
    pub next_marker: Option<String>,
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundContainer {
    /// Its name.
    pub name: String,
    /// The ETag, with its quotes.
    pub etag: Option<String>,
    /// When it changed last.
    pub last_modified: Option<DateTime>,
    /// The state of its lease.
    pub lease_state: Option<LeaseState>,
    /// Its metadata; `None` where it was not asked for.
    pub metadata: Option<Vec<(String, String)>>,
}

/// One page of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobsPage {
    /// Blobs and prefixes, by name.
    pub entries: Vec<FoundEntry>,
    /// The marker of the next page.
    pub next_marker: Option<String>,
}

/// One entry of a list of blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundEntry {
    /// A blob, or one of its states.
    Blob(Box<ListedBlobProperties>),
    /// What several names begin with.
    Prefix(String),
}

/// A blob in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedBlobProperties {
    /// Its name.
    pub name: String,
    /// The time of the snapshot that it is.
    pub snapshot: Option<DateTime>,
    /// The version that it is, where the account keeps versions.
    pub version_id: Option<String>,
    /// It is deleted, but can be had back.
    pub is_deleted: bool,
    /// The ETag, without quotes, as lists have it.
    pub etag: Option<String>,
    /// When it changed last.
    pub last_modified: Option<DateTime>,
    /// When it was created.
    pub created: Option<DateTime>,
    /// How many bytes it has.
    pub length: u64,
    /// Its type.
    pub blob_type: BlobType,
    /// Its headers.
    pub headers: BlobHeaders,
    /// The state of its lease.
    pub lease_state: Option<LeaseState>,
    /// Its metadata; `None` where it was not asked for.
    pub metadata: Option<Vec<(String, String)>>,
}

fn enumeration(answer: &Answer<'_>) -> Result<Element, AnswerError> {
    answer.expect(&[StatusCode::OK])?;
    let root = xml::read_answer(answer.text()?).filter(|root| root.name == "EnumerationResults");
    root.ok_or_else(|| answer.unreadable("the body is no list"))
}

fn next_marker(root: &Element) -> Option<String> {
    root.child_text("NextMarker").filter(|marker| !marker.is_empty()).map(str::to_owned)
}

fn metadata(element: &Element) -> Option<Vec<(String, String)>> {
    let pairs = |element: &Element| {
        element.children.iter().map(|pair| (pair.name.clone(), pair.text.clone())).collect()
    };
    element.child("Metadata").map(pairs)
}

/// What List Containers gave.
pub fn containers_listed(answer: &Answer<'_>) -> Result<ContainersPage, AnswerError> {
    let root = enumeration(answer)?;
    let list = root.child("Containers").ok_or_else(|| answer.unreadable("the list has no containers"))?;
    let containers = list.children.iter().map(|container| {
        let name =
            container.child_text("Name").ok_or_else(|| answer.unreadable("a container has no name"))?;
        let text = |name: &str| container.child("Properties").and_then(|list| list.child_text(name));
        Ok(FoundContainer {
            name: name.to_owned(),
            etag: text("Etag").map(str::to_owned),
            last_modified: text("Last-Modified").and_then(DateTime::parse_rfc1123),
            lease_state: text("LeaseState").and_then(read_lease_state),
            metadata: metadata(container),
        })
    });
    Ok(ContainersPage { containers: containers.collect::<Result<_, _>>()?, next_marker: next_marker(&root) })
}

/// What List Blobs gave.
pub fn blobs_listed(answer: &Answer<'_>) -> Result<BlobsPage, AnswerError> {
    let root = enumeration(answer)?;
    let list = root.child("Blobs").ok_or_else(|| answer.unreadable("the list has no blobs"))?;
    let entries = list.children.iter().map(|element| {
        let name = name(element).ok_or_else(|| answer.unreadable("a blob has no name"))?;
        match element.name.as_str() {
            "BlobPrefix" => Ok(FoundEntry::Prefix(name)),
            _ => {
                let blob = blob(name, element);
                let blob = blob.ok_or_else(|| answer.unreadable("a blob cannot be read"))?;
                Ok(FoundEntry::Blob(Box::new(blob)))
            }
        }
    });
    Ok(BlobsPage { entries: entries.collect::<Result<_, _>>()?, next_marker: next_marker(&root) })
}

/// A name, which is encoded where XML cannot hold it.
fn name(element: &Element) -> Option<String> {
    let name = element.child("Name")?;
    match name.is_encoded {
        true => percent_decode_str(&name.text).decode_utf8().ok().map(|text| text.into_owned()),
        false => Some(name.text.clone()),
    }
}

fn blob(name: String, element: &Element) -> Option<ListedBlobProperties> {
    let properties = element.child("Properties")?;
    let text = |name: &str| properties.child_text(name).filter(|text| !text.is_empty());
    let owned = |name: &str| text(name).map(str::to_owned);
    Some(ListedBlobProperties {
        name,
        snapshot: element.child_text("Snapshot").and_then(DateTime::parse),
        version_id: element.child_text("VersionId").map(str::to_owned),
        is_deleted: element.child_text("Deleted") == Some("true"),
        etag: owned("Etag"),
        last_modified: text("Last-Modified").and_then(DateTime::parse_rfc1123),
        created: text("Creation-Time").and_then(DateTime::parse_rfc1123),
        length: text("Content-Length")?.parse().ok()?,
        blob_type: BlobType::parse(text("BlobType")?)?,
        headers: BlobHeaders {
            content_type: owned("Content-Type"),
            content_encoding: owned("Content-Encoding"),
            content_language: owned("Content-Language"),
            cache_control: owned("Cache-Control"),
            content_disposition: owned("Content-Disposition"),
            content_md5: text("Content-MD5").and_then(|md5| STANDARD.decode(md5).ok()?.try_into().ok()),
        },
        lease_state: text("LeaseState").and_then(read_lease_state),
        metadata: metadata(element),
    })
}
