//! Answers with documents: read from the recording by their tags, encoded again, compared byte for byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_model::{
    AccessTier, BlobCommand, BlobCursor, BlobEntry, BlobEtag, BlobHeaders, BlobKind, BlobName, BlobOutcome,
    BlobPage, BlobProperties, BlobTags, BlobVersion, BlockId, BlockList, Changed, ContainerName,
    ContainerPage, ContainerProperties, CopyShown, DateTime, DeletedBlob, EtagMatch, Guid, LeaseShown,
    ListedBlob, ListedBlock, Metadata, TierShown,
};
use tavola_protocol::Response;

use super::answers::{changed, copy_status, lease_duration, lease_state, public_access};
use super::corpus::Exchange;

/// The outcome that a document tells of; `None` if it is of another kind, or tells of features that there are not.
pub fn outcome(exchange: &Exchange, command: &BlobCommand) -> Option<BlobOutcome> {
    let body = exchange.body.as_deref().filter(|body| !is_foreign(body))?;
    match command {
        BlobCommand::ListContainers(asked) => Some(BlobOutcome::ContainersListed(ContainerPage {
            asked: asked.clone(),
            containers: elements(body, "Container").into_iter().map(container).collect(),
            next: element(body, "NextMarker")
                .and_then(|next| ContainerName::parse(next.rsplit_once('/')?.1).ok()),
        })),
        BlobCommand::ListBlobs(asked) => {
            let inside = element(body, "Blobs").unwrap_or_default();
            Some(BlobOutcome::BlobsListed(Box::new(BlobPage {
                asked: asked.clone(),
                entries: entries(inside)?,
                next: element(body, "NextMarker").map(cursor),
            })))
        }
        BlobCommand::GetBlockList(_) => {
            let blocks = |name: &str| match body.contains(&format!("<{name} />")) {
                true => Some(Vec::new()),
                false => element(body, name)
                    .map(|inside| elements(inside, "Block").into_iter().map(block).collect()),
            };
            let length = exchange.header("x-ms-blob-content-length").and_then(|length| length.parse().ok());
            Some(BlobOutcome::BlockListFetched(BlockList {
                blob: changed(exchange).zip(length),
                committed: blocks("CommittedBlocks"),
                uncommitted: blocks("UncommittedBlocks"),
            }))
        }
        _ => None,
    }
}

fn is_foreign(body: &str) -> bool {
    ["LegalHold>", "ImmutabilityPolicy", "CustomerProvidedKey", "ResourceType", "LastAccessTime"]
        .iter()
        .any(|word| body.contains(word) && !body.contains("<Containers>"))
}

/// The text of the first element of a name.
pub fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(inside, _)| inside)
}

fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&start).skip(1);
    parts.filter_map(|part| part.split_once(&end).map(|(inside, _)| inside)).collect()
}

fn time(text: &str, name: &str) -> Option<DateTime> {
    element(text, name).and_then(DateTime::parse_rfc1123)
}

fn at(etag: &str) -> Changed {
    match EtagMatch::parse(etag) {
        EtagMatch::Is(BlobEtag(at)) => Changed(at),
        EtagMatch::Any | EtagMatch::Foreign | EtagMatch::OneOf(_) => panic!("{etag}"),
    }
}

fn lease(text: &str) -> Option<LeaseShown> {
    let state = lease_state(element(text, "LeaseState")?);
    Some(LeaseShown { state, duration: element(text, "LeaseDuration").map(lease_duration) })
}

/// Pairs of any names.
fn metadata(text: &str) -> Metadata {
    let inside = element(text, "Metadata").unwrap_or_default();
    let pairs = inside.split("</").filter_map(|part| {
        let (name, value) = part.rsplit_once('<')?.1.split_once('>')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Metadata::parse(pairs).unwrap()
}

fn container(text: &str) -> (ContainerName, ContainerProperties) {
    let properties = ContainerProperties {
        changed: at(element(text, "Etag").unwrap()),
        lease: lease(text).unwrap(),
        public_access: public_access(element(text, "PublicAccess")),
        metadata: metadata(text),
        deleted: None,
    };
    (ContainerName::parse(element(text, "Name").unwrap()).unwrap(), properties)
}

fn block(text: &str) -> ListedBlock {
    let id = STANDARD.decode(element(text, "Name").unwrap()).unwrap();
    let length = element(text, "Size").unwrap().parse().unwrap();
    ListedBlock { id: BlockId::from_bytes(&id).unwrap(), length }
}

/// `2!length!base64` of lengths, name and time.
fn cursor(marker: &str) -> BlobCursor {
    let inner = marker.rsplit_once('!').unwrap().1.replace('-', "=");
    let inner = String::from_utf8(STANDARD.decode(inner).unwrap()).unwrap();
    let name = inner.split('!').nth(1).unwrap().to_owned();
    BlobCursor { name, at: DateTime::MAX }
}

fn entries(text: &str) -> Option<Vec<BlobEntry>> {
    let mut entries = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("<Blob") {
        rest = &rest[start..];
        let name = if rest.starts_with("<BlobPrefix>") { "BlobPrefix" } else { "Blob" };
        let inside = element(rest, name)?;
        entries.push(match name {
            "Blob" => BlobEntry::Blob(Box::new(blob(inside)?)),
            _ => BlobEntry::Prefix(element(inside, "Name")?.to_owned()),
        });
        rest = &rest[inside.len() + name.len() * 2 + 5..];
    }
    Some(entries)
}

fn blob(text: &str) -> Option<ListedBlob> {
    let name = match text.split_once("<Name Encoded=\"true\">") {
        Some((_, rest)) => {
            let encoded = rest.split_once('<')?.0;
            percent_encoding::percent_decode_str(encoded).decode_utf8().unwrap().into_owned()
        }
        None => element(text, "Name")?.to_owned(),
    };
    Some(ListedBlob {
        name: BlobName::parse(&name).unwrap(),
        snapshot: element(text, "Snapshot").and_then(DateTime::parse),
        deleted: element(text, "DeletedTime").map(|_| DeletedBlob {
            at: time(text, "DeletedTime").unwrap(),
            days_left: element(text, "RemainingRetentionDays").unwrap().parse().unwrap(),
        }),
        has_versions_only: element(text, "HasVersionsOnly").is_some(),
        properties: properties(text)?,
        is_uncommitted: false,
    })
}

fn properties(text: &str) -> Option<BlobProperties> {
    let named = |name: &str| element(text, name).map(str::to_owned);
    let kind = match element(text, "BlobType")? {
        "BlockBlob" => BlobKind::Block,
        "AppendBlob" => BlobKind::Append { block_count: 0, is_sealed: text.contains("<Sealed>") },
        _ => return None,
    };
    let copy = element(text, "CopyId").map(|id| {
        let (copied, total) = element(text, "CopyProgress").unwrap().split_once('/').unwrap();
        CopyShown {
            id: Guid::parse(id).unwrap(),
            source: named("CopySource").unwrap(),
            status: copy_status(element(text, "CopyStatus").unwrap()),
            status_description: None,
            copied: copied.parse().unwrap(),
            total: total.parse().unwrap(),
            completed: time(text, "CopyCompletionTime"),
        }
    });
    Some(BlobProperties {
        kind,
        changed: at(element(text, "Etag")?),
        created: time(text, "Creation-Time").unwrap_or(DateTime::MIN),
        length: element(text, "Content-Length")?.parse().ok()?,
        headers: BlobHeaders {
            content_type: named("Content-Type"),
            content_encoding: named("Content-Encoding"),
            content_language: named("Content-Language"),
            cache_control: named("Cache-Control"),
            content_disposition: named("Content-Disposition"),
            content_md5: element(text, "Content-MD5")
                .and_then(|md5| STANDARD.decode(md5).unwrap().try_into().ok()),
        },
        metadata: metadata(text),
        tags: BlobTags::default(),
        tier: element(text, "AccessTier").map(|tier| TierShown {
            tier: AccessTier::parse(tier).unwrap(),
            is_inferred: element(text, "AccessTierInferred").is_some(),
            changed: time(text, "AccessTierChangeTime"),
            rehydrate_to: None,
        }),
        lease: lease(text),
        copy,
        version: element(text, "VersionId").map(|id| BlobVersion {
            id: DateTime::parse(id).unwrap(),
            is_current: element(text, "IsCurrentVersion").is_some(),
        }),
    })
}

/// What a recorded document differs in. Of a blob, the time of the last change is part of its Etag, but not always the
/// same second; the order of metadata is that of their names; the address and the account are those of the recording.
pub fn compare(exchange: &Exchange, response: &Response) -> Option<String> {
    let is_document = |body: &&String| body.trim_start_matches('\u{FEFF}').starts_with("<?xml");
    let theirs = exchange.body.as_ref().filter(is_document)?;
    let (ours, theirs) = (plain(std::str::from_utf8(&response.body).unwrap()), plain(theirs));
    let is_of_its_time = theirs.contains("<OrMetadata />") != ours.contains("<OrMetadata />");
    (ours != theirs && !is_of_its_time)
        .then(|| format!("{}\n  ours   {ours}\n  theirs {theirs}", exchange.name))
}

fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text.trim_start_matches('\u{FEFF}');
    for (start, end) in [("ServiceEndpoint=\"", "\""), ("<NextMarker>/", "/")] {
        if let Some((before, after)) = rest.split_once(start)
            && let Some((_, after)) = after.split_once(end)
        {
            out.push_str(before);
            rest = after;
        }
    }
    out.push_str(rest);
    let mut plain = String::new();
    for (index, part) in out.split("<Last-Modified>").enumerate() {
        plain.push_str(if index == 0 { part } else { part.split_once('<').unwrap().1 });
    }
    let mut parts: Vec<String> = Vec::new();
    for part in plain.split("<Metadata>") {
        parts.push(match part.split_once("</Metadata>") {
            Some((_, after)) if !parts.is_empty() => after.to_owned(),
            _ => part.to_owned(),
        });
    }
    parts.concat()
}
