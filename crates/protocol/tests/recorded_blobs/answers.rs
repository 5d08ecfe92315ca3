//! Answers that are headers alone: the outcome that a recorded answer tells of, encoded again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_model::{
    AccessTier, BlobCommand, BlobCopied, BlobGot, BlobHeaders, BlobKind, BlobOutcome, BlobProperties,
    BlobTags, BlobVersion, BlobWritten, BlockAppended, BlockWritten, Changed, Command, ContainerProperties,
    CopyShown, CopyStatus, DateTime, EtagMatch, GotRange, Guid, LeaseDone, LeaseDuration, LeaseId,
    LeaseShown, LeaseState, Metadata, Outcome, PublicAccess, StorageService, TierShown,
};
use tavola_protocol::{Form, Response, encode};

use super::corpus::{Exchange, load};
use super::{bodies, is_refused};

/// Headers that say nothing of the outcome, or belong to features of the recorded account that plain ones lack.
const IGNORED: [&str; 15] = [
    "server",
    "date",
    "x-ms-request-id",
    "x-ms-client-request-id",
    "transfer-encoding",
    "content-length",
    "access-control-allow-origin",
    "access-control-expose-headers",
    "access-control-allow-credentials",
    "vary",
    "connection",
    "keep-alive",
    "last-modified",
    "x-ms-last-access-time",
    "www-authenticate",
];

/// Features that this server does not have; answers that tell of them are passed over.
const FOREIGN: [&str; 5] = [
    "x-ms-encryption-key-sha256",
    "x-ms-encryption-scope",
    "x-ms-legal-hold",
    "x-ms-immutability-policy-mode",
    "x-ms-resource-type",
];

pub fn changed(exchange: &Exchange) -> Option<Changed> {
    match EtagMatch::parse(exchange.header("etag")?) {
        EtagMatch::Is(etag) => Some(Changed(etag.0)),
        EtagMatch::Any | EtagMatch::Foreign | EtagMatch::OneOf(_) => None,
    }
}

fn md5(exchange: &Exchange, name: &str) -> Option<[u8; 16]> {
    STANDARD.decode(exchange.header(name)?).ok()?.try_into().ok()
}

fn crc64(exchange: &Exchange) -> Option<u64> {
    let bytes = STANDARD.decode(exchange.header("x-ms-content-crc64")?).ok()?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

fn number<T: std::str::FromStr>(exchange: &Exchange, name: &str) -> Option<T> {
    exchange.header(name).and_then(|text| text.parse().ok())
}

fn time(exchange: &Exchange, name: &str) -> Option<DateTime> {
    exchange.header(name).and_then(DateTime::parse_rfc1123)
}

fn version(exchange: &Exchange) -> Option<DateTime> {
    exchange.header("x-ms-version-id").and_then(DateTime::parse)
}

fn sums(exchange: &Exchange) -> BlockWritten {
    BlockWritten { md5: md5(exchange, "content-md5"), crc64: crc64(exchange) }
}

fn metadata(exchange: &Exchange) -> Metadata {
    let pairs = exchange.headers.iter().filter_map(|(name, value)| {
        let prefix = name.get(..10).filter(|prefix| prefix.eq_ignore_ascii_case("x-ms-meta-"))?;
        Some((name[prefix.len()..].to_owned(), value.clone()))
    });
    Metadata::parse(pairs).unwrap()
}

pub fn lease_state(text: &str) -> LeaseState {
    use LeaseState::*;
    [Available, Leased, Expired, Breaking, Broken].into_iter().find(|state| state.as_str() == text).unwrap()
}

pub fn lease_duration(text: &str) -> LeaseDuration {
    if text == "infinite" { LeaseDuration::Infinite } else { LeaseDuration::Seconds(15) }
}

fn lease(exchange: &Exchange) -> Option<LeaseShown> {
    let state = lease_state(exchange.header("x-ms-lease-state")?);
    Some(LeaseShown { state, duration: exchange.header("x-ms-lease-duration").map(lease_duration) })
}

pub fn public_access(text: Option<&str>) -> PublicAccess {
    match text {
        Some("blob") => PublicAccess::Blob,
        Some("container") => PublicAccess::Container,
        _ => PublicAccess::None,
    }
}

pub fn copy_status(text: &str) -> CopyStatus {
    use CopyStatus::*;
    [Pending, Success, Aborted, Failed].into_iter().find(|status| status.as_str() == text).unwrap()
}

fn copy(exchange: &Exchange) -> Option<CopyShown> {
    let (copied, total) = exchange.header("x-ms-copy-progress")?.split_once('/')?;
    Some(CopyShown {
        id: Guid::parse(exchange.header("x-ms-copy-id")?)?,
        source: exchange.header("x-ms-copy-source")?.to_owned(),
        status: copy_status(exchange.header("x-ms-copy-status")?),
        status_description: None,
        copied: copied.parse().ok()?,
        total: total.parse().ok()?,
        completed: time(exchange, "x-ms-copy-completion-time"),
    })
}

fn properties(exchange: &Exchange) -> Option<BlobProperties> {
    let text = |name: &str| exchange.header(name).map(str::to_owned);
    let kind = match exchange.header("x-ms-blob-type")? {
        "BlockBlob" => BlobKind::Block,
        "PageBlob" => BlobKind::Page { sequence: number(exchange, "x-ms-blob-sequence-number")? },
        _ => BlobKind::Append {
            block_count: number(exchange, "x-ms-blob-committed-block-count")?,
            is_sealed: exchange.header("x-ms-blob-sealed").is_some(),
        },
    };
    let whole_md5 = if exchange.status == 206 { "x-ms-blob-content-md5" } else { "content-md5" };
    let range = exchange.header("content-range").and_then(|range| range.rsplit_once('/'));
    let tags = (0..number::<usize>(exchange, "x-ms-tag-count").unwrap_or(0))
        .map(|index| (format!("tag{index}"), "value".to_owned()));
    Some(BlobProperties {
        kind,
        changed: changed(exchange)?,
        created: time(exchange, "x-ms-creation-time").unwrap_or(DateTime::MIN),
        length: match range {
            Some((_, length)) => length.parse().ok()?,
            None => number(exchange, "content-length").unwrap_or(0),
        },
        headers: BlobHeaders {
            content_type: text("content-type"),
            content_encoding: text("content-encoding"),
            content_language: text("content-language"),
            cache_control: text("cache-control"),
            content_disposition: text("content-disposition"),
            content_md5: md5(exchange, whole_md5),
        },
        metadata: metadata(exchange),
        tags: BlobTags::parse(tags).unwrap(),
        tier: exchange.header("x-ms-access-tier").map(|tier| TierShown {
            tier: AccessTier::parse(tier).unwrap(),
            is_inferred: exchange.header("x-ms-access-tier-inferred").is_some(),
            changed: time(exchange, "x-ms-access-tier-change-time"),
            rehydrate_to: None,
        }),
        lease: lease(exchange),
        copy: copy(exchange),
        version: version(exchange)
            .map(|id| BlobVersion { id, is_current: exchange.header("x-ms-is-current-version").is_some() }),
    })
}

fn got(exchange: &Exchange) -> Option<BlobGot> {
    let range = match exchange.header("content-range") {
        None => None,
        Some(text) => {
            let (first, last) = text.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-')?;
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            Some(GotRange { first, length: last - first + 1 })
        }
    };
    let asked = |name: &str| exchange.asked(name).is_some();
    Some(BlobGot {
        properties: properties(exchange)?,
        range,
        range_md5: md5(exchange, "content-md5").filter(|_| asked("x-ms-range-get-content-md5")),
        range_crc64: crc64(exchange),
    })
}

fn leased(exchange: &Exchange, action: &str) -> Option<LeaseDone> {
    let id = || exchange.header("x-ms-lease-id").and_then(Guid::parse).map(LeaseId);
    match action.to_ascii_lowercase().as_str() {
        "acquire" => Some(LeaseDone::Acquired(id()?)),
        "renew" => Some(LeaseDone::Renewed(id()?)),
        "change" => Some(LeaseDone::Changed(id()?)),
        "release" => Some(LeaseDone::Released),
        _ => Some(LeaseDone::Broken { seconds_left: number(exchange, "x-ms-lease-time")? }),
    }
}

fn written(exchange: &Exchange) -> Option<BlobWritten> {
    let BlockWritten { md5, crc64 } = sums(exchange);
    Some(BlobWritten { changed: changed(exchange)?, md5, crc64, version: version(exchange) })
}

/// The outcome that an answer tells of; `None` if it is not headers alone.
fn outcome(exchange: &Exchange, command: &BlobCommand) -> Option<BlobOutcome> {
    let at = || changed(exchange);
    Some(match command {
        BlobCommand::CreateContainer(_) => BlobOutcome::ContainerCreated(at()?),
        BlobCommand::DeleteContainer(_) => BlobOutcome::ContainerDeleted,
        BlobCommand::GetContainerProperties(_) => {
            BlobOutcome::ContainerPropertiesFetched(Box::new(ContainerProperties {
                changed: at()?,
                lease: lease(exchange)?,
                public_access: public_access(exchange.header("x-ms-blob-public-access")),
                metadata: metadata(exchange),
                deleted: None,
            }))
        }
        BlobCommand::GetContainerMetadata(_) => {
            BlobOutcome::ContainerMetadataFetched(at()?, metadata(exchange))
        }
        BlobCommand::SetContainerMetadata(_) => BlobOutcome::ContainerMetadataSet(at()?),
        BlobCommand::SetContainerAcl(_) => BlobOutcome::ContainerAclSet(at()?),
        BlobCommand::LeaseContainer(_) => {
            BlobOutcome::ContainerLeased(at()?, leased(exchange, exchange.asked("x-ms-lease-action")?)?)
        }
        BlobCommand::PutBlob(_) => BlobOutcome::BlobPut(written(exchange)?),
        BlobCommand::PutBlobFromUrl(_) => BlobOutcome::BlobPutFromUrl(written(exchange)?),
        BlobCommand::PutBlockList(_) => BlobOutcome::BlockListPut(written(exchange)?),
        BlobCommand::GetBlob(_) => BlobOutcome::BlobGot(Box::new(got(exchange)?)),
        BlobCommand::GetBlobProperties(_) => {
            BlobOutcome::BlobPropertiesFetched(Box::new(properties(exchange)?))
        }
        BlobCommand::SetBlobProperties(_) => {
            let sequence = number(exchange, "x-ms-blob-sequence-number");
            BlobOutcome::BlobPropertiesSet { changed: at()?, sequence }
        }
        BlobCommand::GetBlobMetadata(..) => BlobOutcome::BlobMetadataFetched(at()?, metadata(exchange)),
        BlobCommand::SetBlobMetadata(_) => {
            BlobOutcome::BlobMetadataSet { changed: at()?, version: version(exchange) }
        }
        BlobCommand::LeaseBlob(_) => {
            BlobOutcome::BlobLeased(at()?, leased(exchange, exchange.asked("x-ms-lease-action")?)?)
        }
        BlobCommand::SnapshotBlob(_) => BlobOutcome::BlobSnapshotTaken {
            changed: at()?,
            snapshot: DateTime::parse(exchange.header("x-ms-snapshot")?)?,
            version: version(exchange),
        },
        BlobCommand::DeleteBlob(_) => BlobOutcome::BlobDeleted {
            is_permanent: exchange.header("x-ms-delete-type-permanent") == Some("true"),
        },
        BlobCommand::CopyBlob(copy) => BlobOutcome::BlobCopied(BlobCopied {
            changed: at()?,
            id: Guid::parse(exchange.header("x-ms-copy-id")?)?,
            status: copy_status(exchange.header("x-ms-copy-status")?),
            md5: md5(exchange, "content-md5"),
            crc64: crc64(exchange),
            is_sync: copy.is_sync,
            version: version(exchange),
        }),
        BlobCommand::AbortCopyBlob(_) => BlobOutcome::CopyAborted,
        BlobCommand::PutBlock(_) => BlobOutcome::BlockPut(sums(exchange)),
        BlobCommand::PutBlockFromUrl(_) => BlobOutcome::BlockPutFromUrl(sums(exchange)),
        BlobCommand::AppendBlock(_) | BlobCommand::AppendBlockFromUrl(_) => {
            BlobOutcome::BlockAppended(BlockAppended {
                changed: at()?,
                offset: number(exchange, "x-ms-blob-append-offset")?,
                block_count: number(exchange, "x-ms-blob-committed-block-count")?,
                sums: sums(exchange),
            })
        }
        BlobCommand::SealBlob(_) => BlobOutcome::BlobSealed(at()?),
        _ => bodies::outcome(exchange, command)?,
    })
}

pub fn encoded(exchange: &Exchange, result: &Result<Outcome, tavola_model::ServiceError>) -> Response {
    let now = exchange.header("date").and_then(DateTime::parse_rfc1123).unwrap_or(DateTime::MIN);
    let form = Form::default();
    encode(StorageService::Blob, &exchange.reply(), &form, result, None, now, [Guid([0; 16]); 2])
}

/// Headers by their lower-case names, without those that say nothing of the outcome.
fn shown<'a>(headers: impl Iterator<Item = (&'a str, String)>) -> Vec<String> {
    let mut shown: Vec<String> = headers
        .map(|(name, value)| (name.to_ascii_lowercase(), value.replace("; ", ";")))
        .filter(|(name, _)| !IGNORED.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    shown.sort();
    shown
}

pub fn compare(exchange: &Exchange, response: &Response) -> Option<String> {
    let ours = response.headers.iter().map(|(name, value)| (*name, value.to_str().unwrap().to_owned()));
    let ours = ours.chain(response.metadata.iter().map(|(name, value)| (name.as_str(), value.clone())));
    let theirs = exchange.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let (ours, theirs) = (shown(ours), shown(theirs));
    let status = response.status.as_u16();
    (ours != theirs || status != exchange.status).then(|| {
        let more = ours.iter().filter(|header| !theirs.contains(header)).cloned().collect::<Vec<_>>();
        let less = theirs.iter().filter(|header| !ours.contains(header)).cloned().collect::<Vec<_>>();
        format!("{}\n  {} for {}, more: {more:?}, less: {less:?}", exchange.name, status, exchange.status)
    })
}

#[test]
fn answers_have_the_recorded_status_and_headers() {
    let (mut same, mut wrong) = (0, Vec::new());
    for exchange in load().iter().filter(|exchange| exchange.status < 300 && !is_refused(exchange)) {
        if FOREIGN.iter().any(|name| exchange.header(name).is_some()) || is_of_its_time(exchange) {
            continue;
        }
        let Ok(Command::Blob(command)) = exchange.decode() else { continue };
        let Some(outcome) = outcome(exchange, &command) else { continue };
        let response = encoded(exchange, &Ok(Outcome::Blob(Box::new(outcome))));
        match compare(exchange, &response).or_else(|| bodies::compare(exchange, &response)) {
            None => same += 1,
            Some(difference) => wrong.push(difference),
        }
    }
    println!("{same} answers are the same, {} are not", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(load().is_empty() || same > 1400, "{same}");
}

/// Recorded of accounts that told of features before their versions did, or by recorders that lost a header.
fn is_of_its_time(exchange: &Exchange) -> bool {
    let has_lost_its_source =
        exchange.header("x-ms-copy-progress").is_some() && exchange.header("x-ms-copy-source").is_none();
    let told_early = exchange.header("x-ms-content-crc64").is_some()
        && exchange.asked("x-ms-version") < Some("2019-02-02");
    // Somebody has put blanks between elements.
    let is_edited = exchange.body.as_deref().is_some_and(|body| body.contains("</Blob> <Blob>"));
    exchange.header("x-ms-tag-count") == Some("0") || has_lost_its_source || told_early || is_edited
}
