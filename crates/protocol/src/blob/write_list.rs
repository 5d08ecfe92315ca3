//! Lists of containers and blobs as XML.
//!
//! Elements, their order and the version they came with are as recorded. Etags are quoted in lists of containers and
//! bare in lists of blobs.

use std::fmt::{Display, Write as _};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_model::{
    BlobEntry, BlobHeaders, BlobKind, BlobPage, ContainerName, ContainerPage, ContainerProperties, CopyShown,
    DateTime, FoundPage, LeaseShown, ListInclude, ListedBlob, Metadata,
};

use super::encode::{IMMUTABLE_VERSION, IMMUTABLE_VERSIONS_VERSION, SCOPES_VERSION, VERSIONS_VERSION};
use super::encode_blob::{CREATED_VERSION, TAGS_VERSION, TIERS_VERSION, archive_status};
use super::headers::push_md5;
use super::marker::{write_cursor, write_find_cursor};
use super::write::push_tag_set;
use crate::version::ApiVersion;
use crate::xml::{PROLOGUE, escape_attribute, is_forbidden, push, push_end, push_markup, push_start};

/// First version whose lists tell CRC64 sums, which are always empty.
const CRC64_VERSION: &str = "2019-02-02";
/// First version that encodes names which XML cannot hold.
const ENCODED_NAMES_VERSION: &str = "2021-02-12";
/// What a page has before its entries.
const HEAD_BYTES: usize = 1024;
/// What an entry takes, more or less: a guess too small is only slower.
const ENTRY_BYTES: usize = 1024;
/// What stays as it is in such a name.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The body that answers List Containers.
pub(super) fn containers(page: &ContainerPage, version: &ApiVersion, base: &str, account: &str) -> String {
    let mut out = PROLOGUE.to_owned();
    out.push_str("<EnumerationResults ServiceEndpoint=\"");
    escape_attribute(base, &mut out);
    out.push_str("\">");
    let asked = &page.asked;
    push_asked(&[("Prefix", &asked.prefix), ("Marker", &asked.marker)], asked.max, &mut out);
    let mut inner = String::new();
    for (name, properties) in &page.containers {
        push_container(name, properties, asked.with_metadata, version, &mut inner);
    }
    push_markup("Containers", &inner, &mut out);
    let next = page.next.as_ref().map(|name| format!("/{account}/{name}")).unwrap_or_default();
    push("NextMarker", &next, &mut out);
    out.push_str("</EnumerationResults>");
    out
}

fn push_asked(texts: &[(&str, &Option<String>)], max: Option<u32>, out: &mut String) {
    for (name, text) in texts {
        if let Some(text) = text {
            push(name, text, out);
        }
    }
    if let Some(max) = max {
        push("MaxResults", &max.to_string(), out);
    }
}

fn push_container(
    name: &ContainerName,
    container: &ContainerProperties,
    with_metadata: bool,
    version: &ApiVersion,
    out: &mut String,
) {
    out.push_str("<Container>");
    push("Name", name.as_str(), out);
    if let Some(deleted) = &container.deleted {
        push("Deleted", "true", out);
        push("Version", &deleted.version, out);
    }
    out.push_str("<Properties>");
    push("Last-Modified", &container.changed.0.to_rfc1123(), out);
    push("Etag", &container.changed.etag().quoted(), out);
    push_lease(&container.lease, out);
    if let Some(access) = container.public_access.as_str() {
        push("PublicAccess", access, out);
    }
    if version.is_at_least(SCOPES_VERSION) {
        push("DefaultEncryptionScope", "$account-encryption-key", out);
        push("DenyEncryptionScopeOverride", "false", out);
    }
    if version.is_at_least(IMMUTABLE_VERSION) {
        push("HasImmutabilityPolicy", "false", out);
        push("HasLegalHold", "false", out);
    }
    if version.is_at_least(IMMUTABLE_VERSIONS_VERSION) {
        push("ImmutableStorageWithVersioningEnabled", "false", out);
    }
    if let Some(deleted) = &container.deleted {
        push("DeletedTime", &deleted.at.to_rfc1123(), out);
        push("RemainingRetentionDays", &deleted.days_left.to_string(), out);
    }
    out.push_str("</Properties>");
    if with_metadata {
        push_metadata(&container.metadata, out);
    }
    out.push_str("</Container>");
}

fn push_lease(lease: &LeaseShown, out: &mut String) {
    push("LeaseStatus", lease.state.status(), out);
    push("LeaseState", lease.state.as_str(), out);
    if let Some(duration) = lease.duration {
        push("LeaseDuration", duration.as_str(), out);
    }
}

fn push_metadata(metadata: &Metadata, out: &mut String) {
    let mut pairs = String::new();
    metadata.iter().for_each(|(name, value)| push(name, value, &mut pairs));
    push_markup("Metadata", &pairs, out);
}

/// What the entries of a list show, which does not change from one to the next.
struct Shown<'a> {
    include: &'a ListInclude,
    created: bool,
    crc64: bool,
    tiers: bool,
    versions: bool,
    tags: bool,
    encoded_names: bool,
}

impl<'a> Shown<'a> {
    fn new(include: &'a ListInclude, version: &ApiVersion) -> Self {
        Self {
            include,
            created: version.is_at_least(CREATED_VERSION),
            crc64: version.is_at_least(CRC64_VERSION),
            tiers: version.is_at_least(TIERS_VERSION),
            versions: version.is_at_least(VERSIONS_VERSION),
            tags: version.is_at_least(TAGS_VERSION),
            encoded_names: version.is_at_least(ENCODED_NAMES_VERSION),
        }
    }
}

/// The body that answers List Blobs.
pub(super) fn blobs(page: &BlobPage, version: &ApiVersion, base: &str) -> String {
    let mut out = String::with_capacity(HEAD_BYTES + page.entries.len() * ENTRY_BYTES);
    out.push_str(PROLOGUE);
    out.push_str("<EnumerationResults ServiceEndpoint=\"");
    escape_attribute(base, &mut out);
    out.push_str("\" ContainerName=\"");
    escape_attribute(page.asked.container.as_str(), &mut out);
    out.push_str("\">");
    let asked = &page.asked;
    let texts = [("Prefix", &asked.prefix), ("Marker", &asked.marker), ("StartFrom", &asked.start_from)];
    push_asked(&texts, asked.max, &mut out);
    if let Some(delimiter) = &asked.delimiter {
        push("Delimiter", delimiter, &mut out);
    }
    if page.entries.is_empty() {
        push_markup("Blobs", "", &mut out);
    } else {
        let shown = Shown::new(&asked.include, version);
        push_start("Blobs", &mut out);
        page.entries.iter().for_each(|entry| push_entry(entry, &shown, &mut out));
        push_end("Blobs", &mut out);
    }
    push("NextMarker", &page.next.as_ref().map(write_cursor).unwrap_or_default(), &mut out);
    out.push_str("</EnumerationResults>");
    out
}

fn push_entry(entry: &BlobEntry, shown: &Shown<'_>, out: &mut String) {
    match entry {
        BlobEntry::Blob(blob) => push_blob(blob, shown, out),
        BlobEntry::Prefix(prefix) => {
            out.push_str("<BlobPrefix>");
            push_name(prefix, shown, out);
            out.push_str("</BlobPrefix>");
        }
    }
}

/// A name; one that XML cannot hold is percent-encoded, and says so.
fn push_name(name: &str, shown: &Shown<'_>, out: &mut String) {
    if shown.encoded_names && name.contains(is_forbidden) {
        out.push_str("<Name Encoded=\"true\">");
        out.extend(utf8_percent_encode(name, UNRESERVED));
        out.push_str("</Name>");
    } else {
        push("Name", name, out);
    }
}

fn push_blob(blob: &ListedBlob, shown: &Shown<'_>, out: &mut String) {
    let properties = &blob.properties;
    out.push_str("<Blob>");
    push_name(blob.name.as_str(), shown, out);
    if let Some(snapshot) = blob.snapshot {
        push("Snapshot", &snapshot.to_text_7_digits(), out);
    }
    if let Some(version) = properties.version.filter(|_| shown.versions) {
        push("VersionId", &version.id.to_text_7_digits(), out);
        if version.is_current {
            push("IsCurrentVersion", "true", out);
        }
    }
    if blob.has_versions_only {
        push("HasVersionsOnly", "true", out);
    }
    if blob.deleted.is_some() {
        push("Deleted", "true", out);
    }
    out.push_str("<Properties>");
    push_properties(blob, shown, out);
    out.push_str("</Properties>");
    if shown.include.metadata {
        push_metadata(&properties.metadata, out);
    }
    if shown.include.tags && !properties.tags.is_empty() {
        let mut set = String::new();
        push_tag_set(&properties.tags, &mut set);
        push_markup("Tags", &set, out);
    }
    if shown.tags {
        out.push_str("<OrMetadata />");
    }
    out.push_str("</Blob>");
}

fn push_properties(blob: &ListedBlob, shown: &Shown<'_>, out: &mut String) {
    let properties = &blob.properties;
    if !blob.is_uncommitted {
        if shown.created {
            push_time("Creation-Time", properties.created, out);
        }
        push_time("Last-Modified", properties.changed.0, out);
        push_shown("Etag", properties.changed.etag(), out);
    }
    push_shown("Content-Length", properties.length, out);
    push_headers(&properties.headers, shown, out);
    push_markup("BlobType", properties.kind.blob_type().as_str(), out);
    if let BlobKind::Page { sequence } = properties.kind {
        push_shown("x-ms-blob-sequence-number", sequence, out);
    }
    if let Some(tier) = properties.tier.as_ref().filter(|_| shown.tiers) {
        push_markup("AccessTier", tier.tier.as_str(), out);
        if tier.is_inferred {
            out.push_str("<AccessTierInferred>true</AccessTierInferred>");
        }
        if let (Some(status), Some((_, priority))) = (archive_status(tier), tier.rehydrate_to) {
            push("ArchiveStatus", &status, out);
            push("RehydratePriority", priority.as_str(), out);
        }
        if let Some(at) = tier.changed {
            push_time("AccessTierChangeTime", at, out);
        }
    }
    if let Some(lease) = &properties.lease {
        push_lease(lease, out);
    }
    if let Some(copy) = properties.copy.as_ref().filter(|_| shown.include.copy) {
        push_copy(copy, out);
    }
    if let BlobKind::Append { is_sealed: true, .. } = properties.kind {
        push("Sealed", "true", out);
    }
    out.push_str("<ServerEncrypted>true</ServerEncrypted>");
    if let Some(deleted) = blob.deleted {
        push_time("DeletedTime", deleted.at, out);
        push_shown("RemainingRetentionDays", deleted.days_left, out);
    }
    if shown.tags && !properties.tags.is_empty() {
        push_shown("TagCount", properties.tags.len(), out);
    }
}

fn push_headers(headers: &BlobHeaders, shown: &Shown<'_>, out: &mut String) {
    push("Content-Type", headers.content_type.as_deref().unwrap_or_default(), out);
    push("Content-Encoding", headers.content_encoding.as_deref().unwrap_or_default(), out);
    push("Content-Language", headers.content_language.as_deref().unwrap_or_default(), out);
    if shown.crc64 {
        out.push_str("<Content-CRC64 />");
    }
    match headers.content_md5 {
        Some(md5) => {
            push_start("Content-MD5", out);
            push_md5(md5, out);
            push_end("Content-MD5", out);
        }
        None => out.push_str("<Content-MD5 />"),
    }
    push("Cache-Control", headers.cache_control.as_deref().unwrap_or_default(), out);
    push("Content-Disposition", headers.content_disposition.as_deref().unwrap_or_default(), out);
}

fn push_time(name: &str, time: DateTime, out: &mut String) {
    push_start(name, out);
    time.push_rfc1123(out);
    push_end(name, out);
}

/// An element of a text that has nothing to escape, such as a number.
fn push_shown(name: &str, text: impl Display, out: &mut String) {
    push_start(name, out);
    // Writing to a String cannot fail.
    let _ = write!(out, "{text}");
    push_end(name, out);
}

fn push_copy(copy: &CopyShown, out: &mut String) {
    push("CopyId", &copy.id.to_string(), out);
    push("CopySource", &copy.source, out);
    push("CopyStatus", copy.status.as_str(), out);
    if let Some(description) = &copy.status_description {
        push("CopyStatusDescription", description, out);
    }
    push("CopyProgress", &format!("{}/{}", copy.copied, copy.total), out);
    if let Some(completed) = copy.completed {
        push("CopyCompletionTime", &completed.to_rfc1123(), out);
    }
}

/// The body that answers Find Blobs by Tags.
pub(super) fn found(page: &FoundPage, base: &str) -> String {
    let mut out = PROLOGUE.to_owned();
    out.push_str("<EnumerationResults ServiceEndpoint=\"");
    escape_attribute(base, &mut out);
    out.push_str("\">");
    push("Where", &page.asked.text, &mut out);
    let mut inner = String::new();
    for blob in &page.blobs {
        inner.push_str("<Blob>");
        push("Name", blob.name.as_str(), &mut inner);
        push("ContainerName", blob.container.as_str(), &mut inner);
        let mut set = String::new();
        push_tag_set(&blob.tags, &mut set);
        push_markup("Tags", &set, &mut inner);
        inner.push_str("</Blob>");
    }
    push_markup("Blobs", &inner, &mut out);
    push("NextMarker", &page.next.as_ref().map(write_find_cursor).unwrap_or_default(), &mut out);
    out.push_str("</EnumerationResults>");
    out
}
