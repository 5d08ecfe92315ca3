//! Requests about single blobs that bring no content: reads, properties, leases, copies.

use tavola_model::{
    AbortCopy, BlobCommand, BlobConditions, BlobMoment, BlobPath, BlobTarget, BlockListType, CopyBlob,
    DateTime, DeleteBlob, DeleteSnapshots, ErrorCode, GetBlob, GetBlobProperties, GetBlockList,
    GetPageRanges, Guid, LeaseBlob, PAGE_BLOB_BYTES_MAX, PAGE_BYTES, Query, RANGE_SUM_BYTES_MAX, RangeSum,
    SealBlob, SequenceAction, ServiceError, SetBlobHeaders, SetBlobMetadata, SetBlobTags, SetBlobTier,
    SnapshotBlob,
};

use super::decode::{BlobRequest, lease_action};
use super::documents::parse_tags;
use super::headers::{
    append_conditions, blob_headers, body_sums, flag, given, invalid_header, lease_id, missing_header,
    number, parsed, range_read, read_conditions, rehydrate_priority, source_conditions, sums, tags, tier,
    write_conditions,
};
use super::source::copy_source;
use crate::parameters::{invalid_value, missing, number as query_number};

/// The state of a blob that a query names.
pub(super) fn target(path: BlobPath, query: &Query<'_>) -> Result<BlobTarget, ServiceError> {
    let given = |name: &str| query.get(name).filter(|text| !text.is_empty());
    let moment = match (given("snapshot"), given("versionid")) {
        (None, None) => BlobMoment::Current,
        (Some(text), None) => {
            let reason = "Must be in the specific snapshot date time format.";
            BlobMoment::Snapshot(moment(text).ok_or_else(|| invalid_value("snapshot", text, reason))?)
        }
        (None, Some(text)) => {
            let reason = "Must be in the specific version id date time format.";
            BlobMoment::Version(moment(text).ok_or_else(|| invalid_value("versionid", text, reason))?)
        }
        (Some(_), Some(_)) => return Err(ErrorCode::MutuallyExclusiveQueryParameters.into()),
    };
    Ok(BlobTarget { path, moment })
}

/// A time with seven digits of a fraction.
fn moment(text: &str) -> Option<DateTime> {
    DateTime::parse(text).filter(|_| text.len() == 28 && text.ends_with('Z'))
}

pub(super) fn read(
    path: BlobPath,
    request: &BlobRequest<'_>,
) -> Result<(BlobTarget, BlobConditions), ServiceError> {
    Ok((target(path, request.query)?, read_conditions(request.headers, request.version)?))
}

fn write(path: BlobPath, request: &BlobRequest<'_>) -> Result<(BlobTarget, BlobConditions), ServiceError> {
    Ok((target(path, request.query)?, write_conditions(request.headers)?))
}

pub(super) fn get_blob(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    const MD5: &str = "x-ms-range-get-content-md5";
    const CRC64: &str = "x-ms-range-get-content-crc64";
    let headers = request.headers;
    let (target, conditions) = read(path, request)?;
    let range = range_read(headers);
    let range_sum = match (flag(headers, MD5)?, flag(headers, CRC64)?) {
        (false, false) => None,
        (true, false) => Some((RangeSum::Md5, MD5)),
        (false, true) => Some((RangeSum::Crc64, CRC64)),
        (true, true) => return Err(ErrorCode::BothCrc64AndMd5HeaderPresent.into()),
    };
    if let Some((_, name)) = range_sum {
        let range = range.ok_or_else(|| invalid_header(name, "true"))?;
        if range.length().is_some_and(|length| length > RANGE_SUM_BYTES_MAX) {
            return Err(ServiceError::out_of_range());
        }
    }
    let range_sum = range_sum.map(|(sum, _)| sum);
    let overrides = overrides(request.query);
    Ok(BlobCommand::GetBlob(GetBlob { target, range, range_sum, overrides, conditions }))
}

pub(super) fn get_properties(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = read(path, request)?;
    let overrides = overrides(request.query);
    Ok(BlobCommand::GetBlobProperties(GetBlobProperties { target, overrides, conditions }))
}

/// The headers that a service SAS sets in the answer; they are among what it signs.
fn overrides(query: &Query<'_>) -> tavola_model::BlobHeaders {
    if query.get("sr").is_none() || query.get("sig").is_none() {
        return tavola_model::BlobHeaders::default();
    }
    let named = |name: &str| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
    tavola_model::BlobHeaders {
        content_type: named("rsct"),
        content_encoding: named("rsce"),
        content_language: named("rscl"),
        cache_control: named("rscc"),
        content_disposition: named("rscd"),
        content_md5: None,
    }
}

pub(super) fn set_properties(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    const LENGTH: &str = "x-ms-blob-content-length";
    let headers = request.headers;
    let length = number::<u64>(headers, LENGTH)?;
    if let Some(length) = length.filter(|length| !is_page_length(*length)) {
        return Err(invalid_header(LENGTH, &length.to_string()));
    }
    let sequence = sequence_action(request)?;
    let given = blob_headers(headers)?;
    let is_about_pages = length.is_some() || sequence.is_some();
    let leaves_headers = is_about_pages && given == tavola_model::BlobHeaders::default();
    Ok(BlobCommand::SetBlobProperties(SetBlobHeaders {
        blob,
        headers: (!leaves_headers).then_some(given),
        length,
        sequence,
        conditions: write_conditions(headers)?,
    }))
}

/// Whether a page blob can have this length.
pub(super) fn is_page_length(length: u64) -> bool {
    length.is_multiple_of(PAGE_BYTES) && length <= PAGE_BLOB_BYTES_MAX
}

fn sequence_action(request: &BlobRequest<'_>) -> Result<Option<SequenceAction>, ServiceError> {
    const ACTION: &str = "x-ms-sequence-number-action";
    const NUMBER: &str = "x-ms-blob-sequence-number";
    let headers = request.headers;
    let Some(action) = given(headers, ACTION) else { return Ok(None) };
    let value = number::<u64>(headers, NUMBER)?;
    let required = || value.ok_or_else(|| missing_header(NUMBER));
    match action.to_ascii_lowercase().as_str() {
        "max" => Ok(Some(SequenceAction::Max(required()?))),
        "update" => Ok(Some(SequenceAction::Update(required()?))),
        "increment" if value.is_none() => Ok(Some(SequenceAction::Increment)),
        "increment" => Err(invalid_header(NUMBER, &value.unwrap_or_default().to_string())),
        _ => Err(invalid_header(ACTION, action)),
    }
}

pub(super) fn set_metadata(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (metadata, conditions) = (request.metadata()?, write_conditions(request.headers)?);
    Ok(BlobCommand::SetBlobMetadata(SetBlobMetadata { blob, metadata, conditions }))
}

pub(super) fn set_tags(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = write(path, request)?;
    let (tags, sums) = (parse_tags(request.body)?, body_sums(request.headers)?);
    let text = request.body.clone();
    Ok(BlobCommand::SetBlobTags(SetBlobTags { target, tags, sums, text, conditions }))
}

pub(super) fn lease(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let action = lease_action(request.headers)?;
    let conditions = BlobConditions { lease: None, ..write_conditions(request.headers)? };
    Ok(BlobCommand::LeaseBlob(LeaseBlob { blob, action, conditions }))
}

pub(super) fn snapshot(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    if let Some(text) = request.query.get("snapshot") {
        return Err(invalid_value("snapshot", text, ""));
    }
    let (metadata, conditions) = (request.metadata()?, write_conditions(request.headers)?);
    Ok(BlobCommand::SnapshotBlob(SnapshotBlob { blob, metadata, conditions }))
}

pub(super) fn delete(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = write(path, request)?;
    let snapshots = parsed(request.headers, "x-ms-delete-snapshots", |text| match text {
        _ if text.eq_ignore_ascii_case("include") => Some(DeleteSnapshots::Include),
        _ if text.eq_ignore_ascii_case("only") => Some(DeleteSnapshots::Only),
        _ => None,
    })?;
    if snapshots.is_some() && target.moment != BlobMoment::Current {
        let (name, reason) = match target.moment {
            BlobMoment::Snapshot(_) => (
                "snapshot",
                "This operation is only allowed on the root blob. Snapshot should not be provided.",
            ),
            BlobMoment::Version(_) | BlobMoment::Current => (
                "versionid",
                "This operation is only allowed on the root blob. Version id should not be provided.",
            ),
        };
        return Err(invalid_value(name, request.query.get(name).unwrap_or_default(), reason));
    }
    let is_permanent = match request.query.get("deletetype") {
        None | Some("") => false,
        Some(text) if text.eq_ignore_ascii_case("permanent") => true,
        Some(other) => return Err(invalid_value("deletetype", other, "")),
    };
    let snapshots = snapshots.unwrap_or_default();
    Ok(BlobCommand::DeleteBlob(DeleteBlob { target, snapshots, is_permanent, conditions }))
}

/// `x-ms-copy-source-tag-option`. Tags come from the source or from the request, never from both.
pub(super) fn copies_tags(request: &BlobRequest<'_>) -> Result<bool, ServiceError> {
    let option = parsed(request.headers, "x-ms-copy-source-tag-option", |text| match text {
        _ if text.eq_ignore_ascii_case("copy") => Some(true),
        _ if text.eq_ignore_ascii_case("replace") => Some(false),
        _ => None,
    })?;
    let copies = option.unwrap_or(false);
    if copies && given(request.headers, "x-ms-tags").is_some() {
        return Err(ErrorCode::BothUserTagsAndSourceTagsCopyPresent.into());
    }
    Ok(copies)
}

pub(super) fn copy(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let headers = request.headers;
    Ok(BlobCommand::CopyBlob(Box::new(CopyBlob {
        blob,
        source: copy_source(headers)?,
        is_sync: flag(headers, "x-ms-requires-sync")?,
        metadata: request.metadata()?,
        tags: tags(headers)?,
        copies_tags: copies_tags(request)?,
        tier: tier(headers)?,
        rehydrate: rehydrate_priority(headers)?,
        seals: given(headers, "x-ms-seal-blob").map(|_| flag(headers, "x-ms-seal-blob")).transpose()?,
        source_md5: sums(headers, "x-ms-source-content-md5", "x-ms-source-content-crc64")?.md5,
        source_conditions: source_conditions(headers)?,
        source_lease: lease_id(headers, "x-ms-source-lease-id")?,
        conditions: write_conditions(headers)?,
    })))
}

pub(super) fn abort_copy(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    const ACTION: &str = "x-ms-copy-action";
    let text = request.query.get("copyid").ok_or_else(|| missing("copyid"))?;
    let reason = "copyid needs to be valid Guid.";
    let copy = Guid::parse(text).ok_or_else(|| invalid_value("copyid", text, reason))?;
    match given(request.headers, ACTION) {
        None => return Err(missing_header(ACTION)),
        Some(action) if action.eq_ignore_ascii_case("abort") => {}
        Some(other) => return Err(invalid_header(ACTION, other)),
    }
    Ok(BlobCommand::AbortCopyBlob(AbortCopy {
        blob,
        copy,
        lease: lease_id(request.headers, "x-ms-lease-id")?,
    }))
}

pub(super) fn set_tier(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = write(path, request)?;
    let tier = tier(request.headers)?.ok_or_else(|| missing_header("x-ms-access-tier"))?;
    let rehydrate = rehydrate_priority(request.headers)?;
    Ok(BlobCommand::SetBlobTier(SetBlobTier { target, tier, rehydrate, conditions }))
}

pub(super) fn get_block_list(path: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = read(path, request)?;
    let which = match request.query.get("blocklisttype").unwrap_or_default() {
        text if text.eq_ignore_ascii_case("uncommitted") => BlockListType::Uncommitted,
        text if text.eq_ignore_ascii_case("all") => BlockListType::All,
        text if text.is_empty() || text.eq_ignore_ascii_case("committed") => BlockListType::Committed,
        other => return Err(invalid_value("blocklisttype", other, "")),
    };
    Ok(BlobCommand::GetBlockList(GetBlockList { target, which, conditions }))
}

pub(super) fn seal(blob: BlobPath, request: &BlobRequest<'_>) -> Result<BlobCommand, ServiceError> {
    let (append, conditions) = (append_conditions(request.headers)?, write_conditions(request.headers)?);
    Ok(BlobCommand::SealBlob(SealBlob { blob, append, conditions }))
}

pub(super) fn get_page_ranges(
    path: BlobPath,
    request: &BlobRequest<'_>,
) -> Result<BlobCommand, ServiceError> {
    let (target, conditions) = read(path, request)?;
    let query = request.query;
    let since = query.get("prevsnapshot").filter(|text| !text.is_empty());
    let reason = "Must be in the specific snapshot date time format.";
    let since = since
        .map(|text| moment(text).ok_or_else(|| invalid_value("prevsnapshot", text, reason)))
        .transpose()?;
    let from = query.get("marker").filter(|text| !text.is_empty());
    let from = from.map(|text| text.parse().map_err(|_| ServiceError::out_of_range())).transpose()?;
    Ok(BlobCommand::GetPageRanges(GetPageRanges {
        target,
        range: range_read(request.headers),
        since: since.map(BlobMoment::Snapshot),
        from,
        max: query_number(query, "maxresults", 1, u32::MAX)?,
        is_paged: request.version.is_at_least("2020-10-02"),
        conditions,
    }))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;
    use tavola_model::{Address, Command};

    use super::*;
    use crate::blob::{decode, route};
    use crate::version::ApiVersion;

    fn decoded(request: &str, headers: &[(&'static str, &str)]) -> Result<BlobCommand, ServiceError> {
        let (method, target) = request.split_once(' ').unwrap();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = format!("/acct{path}");
        let address = Address::parse("127.0.0.1", &path).unwrap();
        let query = Query::parse(query).unwrap();
        let headers: HeaderMap =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect();
        let route = route(&method.parse().unwrap(), &address, &query, &headers)?;
        let version = ApiVersion::parse("2021-12-02").unwrap();
        let (query, headers) = (&query, &headers);
        let request =
            BlobRequest { version: &version, query, headers, metadata_names: &[], body: &Bytes::new() };
        match decode(route, &request)? {
            Command::Blob(command) => Ok(*command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_token_for_a_blob_sets_headers_of_get_and_of_head() {
        const TOKEN: &str = "rscc=a&rscd=b&rsce=c&rscl=d&rsct=e&sig=x";
        for (token, is_set) in [(format!("sr=b&{TOKEN}"), true), (TOKEN.to_owned(), false)] {
            let overrides = |method: &str| match decoded(&format!("{method} /con/b?{token}"), &[]).unwrap() {
                BlobCommand::GetBlob(get) => get.overrides,
                BlobCommand::GetBlobProperties(get) => get.overrides,
                other => panic!("{other:?}"),
            };
            let got = overrides("GET");
            assert_eq!(got.content_disposition.as_deref(), is_set.then_some("b"));
            assert_eq!(got.content_type.as_deref(), is_set.then_some("e"));
            assert_eq!(overrides("HEAD"), got);
        }
    }

    #[test]
    fn a_new_blob_has_a_tier_of_its_type_or_none() {
        let check = |request: &str, headers: &[(&'static str, &str)], tier: &str, expected: &str| {
            let headers: Vec<_> = headers
                .iter()
                .copied()
                .chain([
                    ("x-ms-access-tier", tier),
                    ("content-length", "0"),
                    ("x-ms-blob-content-length", "512"),
                ])
                .collect();
            let code = decoded(request, &headers).map_or_else(|error| error.code.as_str(), |_| "ok");
            assert_eq!(code, expected, "{request} {headers:?}");
        };
        const UNSUPPORTED: &str = "AccessTierNotSupportedForBlobType";
        for (kind, tier, expected) in [
            ("BlockBlob", "Cool", "ok"),
            ("BlockBlob", "P10", "InvalidBlobTier"),
            ("AppendBlob", "Cool", UNSUPPORTED),
            ("PageBlob", "P10", UNSUPPORTED),
            ("PageBlob", "Hot", UNSUPPORTED),
        ] {
            check("PUT /con/b", &[("x-ms-blob-type", kind)], tier, expected);
        }
        let from_url = [("x-ms-blob-type", "BlockBlob"), ("x-ms-copy-source", "http://127.0.0.1/acct/con/a")];
        check("PUT /con/b", &from_url, "P10", "InvalidBlobTier");
        check("PUT /con/b", &from_url, "Cool", "ok");
    }

    #[test]
    fn tags_come_from_the_source_or_from_the_request_and_not_from_both() {
        let source = ("x-ms-copy-source", "http://127.0.0.1/acct/con/a");
        let (copies, tags) = (("x-ms-copy-source-tag-option", "COPY"), ("x-ms-tags", "a=b"));
        for kind in [None, Some(("x-ms-blob-type", "BlockBlob"))] {
            let code = |headers: &[(&'static str, &str)]| {
                let headers: Vec<_> = headers.iter().copied().chain([source]).chain(kind).collect();
                decoded("PUT /con/b", &headers).map_or_else(|error| error.code.as_str(), |_| "ok")
            };
            assert_eq!(code(&[copies]), "ok");
            assert_eq!(code(&[tags]), "ok");
            assert_eq!(code(&[copies, tags]), "BothUserTagsAndSourceTagsCopyPresentException");
        }
    }
}
