//! Headers of requests to the blob service, each checked where it is read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use tavola_model::{
    AccessTier, AppendConditions, BlobConditions, BlobHeaders, BlobTags, ByteRange, ContainerConditions,
    Crc64, DateTime, ErrorCode, EtagMatch, Guid, LeaseId, Md5, Query, RehydratePriority, SequenceConditions,
    ServiceError, SourceConditions, TransferSums, VersionConditions,
};

use super::tag_filter::parse_tag_filter;
use crate::reply::text;
use crate::version::ApiVersion;

/// What a blob is told to be if nobody says.
pub(super) const CONTENT_TYPE_DEFAULT: &str = "application/octet-stream";

/// Up to so many headers are looked at one by one.
const FEW_HEADERS: usize = 24;

/// The value of a header, if it is given and not empty. `name` is in lower case.
pub(super) fn given<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // Many names are asked for and few are given: comparing with these is quicker than parsing and hashing each of those.
    let value = if headers.len() <= FEW_HEADERS {
        let found = headers.iter().find(|(known, _)| known.as_str() == name);
        found.and_then(|(_, value)| value.to_str().ok())
    } else {
        text(headers, name)
    };
    value.map(str::trim).filter(|text| !text.is_empty())
}

/// `InvalidHeaderValue` for this header.
pub(super) fn invalid_header(name: &'static str, value: &str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidHeaderValue)
        .with_detail("HeaderName", name)
        .with_detail("HeaderValue", value)
}

/// `MissingRequiredHeader` for this header.
pub(super) fn missing_header(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::MissingRequiredHeader).with_detail("HeaderName", name)
}

/// A value that `parse` understands, if the header is given.
pub(super) fn parsed<T>(
    headers: &HeaderMap,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ServiceError> {
    let Some(value) = given(headers, name) else { return Ok(None) };
    parse(value).map(Some).ok_or_else(|| invalid_header(name, value))
}

/// A number, if the header is given.
pub(super) fn number<T: std::str::FromStr>(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<Option<T>, ServiceError> {
    parsed(headers, name, |text| text.parse().ok())
}

/// `true` or `false`; false if the header is not given.
pub(super) fn flag(headers: &HeaderMap, name: &'static str) -> Result<bool, ServiceError> {
    let flag = parsed(headers, name, |text| match text {
        _ if text.eq_ignore_ascii_case("true") => Some(true),
        _ if text.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    })?;
    Ok(flag.unwrap_or(false))
}

/// `x-ms-lease-id` or the like.
pub(super) fn lease_id(headers: &HeaderMap, name: &'static str) -> Result<Option<LeaseId>, ServiceError> {
    parsed(headers, name, |text| Guid::parse(text).map(LeaseId))
}

/// The conditions on versions and times under these names.
fn version_conditions(
    headers: &HeaderMap,
    [matches, none_match, modified, unmodified]: [&'static str; 4],
) -> Result<VersionConditions, ServiceError> {
    Ok(VersionConditions {
        if_match: given(headers, matches).map(EtagMatch::parse),
        if_none_match: given(headers, none_match).map(EtagMatch::parse),
        if_modified_since: parsed(headers, modified, DateTime::parse_rfc1123)?,
        if_unmodified_since: parsed(headers, unmodified, DateTime::parse_rfc1123)?,
    })
}

/// First version whose reads take conditions in any combination.
const COMBINED_VERSION: &str = "2013-08-15";

/// The conditions of a read of a blob, in any combination and with several ETags. Those of old are like those of a write.
pub(super) fn read_conditions(
    headers: &HeaderMap,
    version: &ApiVersion,
) -> Result<BlobConditions, ServiceError> {
    let conditions = blob_conditions(headers)?;
    if !version.is_at_least(COMBINED_VERSION) {
        return Ok(BlobConditions { version: single(conditions.version)?, ..conditions });
    }
    // Nothing that can be read is missing.
    if conditions.version.if_none_match == Some(EtagMatch::Any) {
        return Err(ErrorCode::UnsatisfiableCondition.into());
    }
    Ok(conditions)
}

/// The conditions of a write to a blob.
pub(super) fn write_conditions(headers: &HeaderMap) -> Result<BlobConditions, ServiceError> {
    let conditions = blob_conditions(headers)?;
    Ok(BlobConditions { version: single(conditions.version)?, ..conditions })
}

fn blob_conditions(headers: &HeaderMap) -> Result<BlobConditions, ServiceError> {
    let names = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];
    Ok(BlobConditions {
        version: version_conditions(headers, names)?,
        if_tags: given(headers, "x-ms-if-tags").map(parse_tag_filter).transpose()?,
        lease: lease_id(headers, "x-ms-lease-id")?,
    })
}

/// The one condition that is evaluated: an ETag stands for the time that is given with it, and no other combination is
/// taken, nor several ETags.
/// <https://learn.microsoft.com/rest/api/storageservices/specifying-conditional-headers-for-blob-service-operations>
fn single(given: VersionConditions) -> Result<VersionConditions, ServiceError> {
    let conditions = VersionConditions {
        if_modified_since: given.if_modified_since.filter(|_| given.if_none_match.is_none()),
        if_unmodified_since: given.if_unmodified_since.filter(|_| given.if_match.is_none()),
        ..given
    };
    let VersionConditions { if_match, if_none_match, if_modified_since, if_unmodified_since } = &conditions;
    let has_list =
        [if_match, if_none_match].into_iter().any(|named| matches!(named, Some(EtagMatch::OneOf(_))));
    let are_given = [
        if_match.is_some(),
        if_none_match.is_some(),
        if_modified_since.is_some(),
        if_unmodified_since.is_some(),
    ];
    if has_list || are_given.into_iter().filter(|is_given| *is_given).count() > 1 {
        return Err(ErrorCode::MultipleConditionHeadersNotSupported.into());
    }
    Ok(conditions)
}

/// The conditions on times, which are all that a container takes.
pub(super) fn time_conditions(headers: &HeaderMap) -> Result<VersionConditions, ServiceError> {
    single(VersionConditions {
        if_modified_since: parsed(headers, "if-modified-since", DateTime::parse_rfc1123)?,
        if_unmodified_since: parsed(headers, "if-unmodified-since", DateTime::parse_rfc1123)?,
        ..VersionConditions::default()
    })
}

/// The conditions on a container.
pub(super) fn container_conditions(headers: &HeaderMap) -> Result<ContainerConditions, ServiceError> {
    Ok(ContainerConditions { version: time_conditions(headers)?, lease: lease_id(headers, "x-ms-lease-id")? })
}

/// The conditions on the source of a copy.
pub(super) fn source_conditions(headers: &HeaderMap) -> Result<SourceConditions, ServiceError> {
    let names = [
        "x-ms-source-if-match",
        "x-ms-source-if-none-match",
        "x-ms-source-if-modified-since",
        "x-ms-source-if-unmodified-since",
    ];
    Ok(SourceConditions {
        version: version_conditions(headers, names)?,
        if_tags: given(headers, "x-ms-source-if-tags").map(parse_tag_filter).transpose()?,
    })
}

/// The conditions of Append Block.
pub(super) fn append_conditions(headers: &HeaderMap) -> Result<AppendConditions, ServiceError> {
    Ok(AppendConditions {
        position: number(headers, "x-ms-blob-condition-appendpos")?,
        length_max: number(headers, "x-ms-blob-condition-maxsize")?,
    })
}

/// The conditions of Put Page.
pub(super) fn sequence_conditions(headers: &HeaderMap) -> Result<SequenceConditions, ServiceError> {
    Ok(SequenceConditions {
        less_or_equal: number(headers, "x-ms-if-sequence-number-le")?,
        less: number(headers, "x-ms-if-sequence-number-lt")?,
        equal: number(headers, "x-ms-if-sequence-number-eq")?,
    })
}

/// The sums of a body or of a source, under these names.
pub(super) fn sums(
    headers: &HeaderMap,
    md5_name: &'static str,
    crc64_name: &'static str,
) -> Result<TransferSums, ServiceError> {
    Ok(TransferSums { md5: md5(headers, md5_name)?, crc64: crc64(headers, crc64_name)?, tells_md5: false })
}

/// The sums of the body of a request.
pub(super) fn body_sums(headers: &HeaderMap) -> Result<TransferSums, ServiceError> {
    sums(headers, "content-md5", "x-ms-content-crc64")
}

fn md5(headers: &HeaderMap, name: &'static str) -> Result<Option<Md5>, ServiceError> {
    let Some(value) = given(headers, name) else { return Ok(None) };
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Some).ok_or_else(|| ErrorCode::InvalidMd5.into())
}

fn crc64(headers: &HeaderMap, name: &'static str) -> Result<Option<Crc64>, ServiceError> {
    let Some(value) = given(headers, name) else { return Ok(None) };
    let bytes = STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(|bytes| Some(Crc64::from_le_bytes(bytes))).ok_or_else(|| ErrorCode::InvalidCrc64.into())
}

/// The text of an MD5 sum.
pub(super) fn write_md5(md5: Md5) -> String {
    STANDARD.encode(md5)
}

/// Writes the same behind a text.
pub(super) fn push_md5(md5: Md5, out: &mut String) {
    STANDARD.encode_string(md5, out);
}

/// The text of a CRC64 sum.
pub(super) fn write_crc64(crc64: Crc64) -> String {
    STANDARD.encode(crc64.to_le_bytes())
}

/// The headers that a blob is to keep, by their own names alone.
pub(super) fn blob_headers(headers: &HeaderMap) -> Result<BlobHeaders, ServiceError> {
    let named = |name: &str| given(headers, name).map(str::to_owned);
    Ok(BlobHeaders {
        content_type: named("x-ms-blob-content-type"),
        content_encoding: named("x-ms-blob-content-encoding"),
        content_language: named("x-ms-blob-content-language"),
        cache_control: named("x-ms-blob-cache-control"),
        content_disposition: named("x-ms-blob-content-disposition"),
        content_md5: md5(headers, "x-ms-blob-content-md5")?,
    })
}

/// The headers that a blob is to keep whose content is the body: those of the body stand in for what is not named.
pub(super) fn uploaded_headers(headers: &HeaderMap) -> Result<BlobHeaders, ServiceError> {
    let own = blob_headers(headers)?;
    let or = |own: Option<String>, name: &str| own.or_else(|| given(headers, name).map(str::to_owned));
    let content_type = or(own.content_type, "content-type");
    Ok(BlobHeaders {
        content_type: content_type.or_else(|| Some(CONTENT_TYPE_DEFAULT.to_owned())),
        content_encoding: or(own.content_encoding, "content-encoding"),
        content_language: or(own.content_language, "content-language"),
        cache_control: or(own.cache_control, "cache-control"),
        ..own
    })
}

/// `x-ms-tags`: names and values as in a query.
pub(super) fn tags(headers: &HeaderMap) -> Result<BlobTags, ServiceError> {
    let Some(value) = given(headers, "x-ms-tags") else { return Ok(BlobTags::default()) };
    let query = Query::parse(value).ok_or(ErrorCode::InvalidTag)?;
    BlobTags::parse(query.iter().map(|(name, value)| (name.to_owned(), value.to_owned())))
}

/// `x-ms-access-tier`.
pub(super) fn tier(headers: &HeaderMap) -> Result<Option<AccessTier>, ServiceError> {
    parsed(headers, "x-ms-access-tier", AccessTier::parse)
}

/// `x-ms-rehydrate-priority`.
pub(super) fn rehydrate_priority(headers: &HeaderMap) -> Result<RehydratePriority, ServiceError> {
    let priority = parsed(headers, "x-ms-rehydrate-priority", |text| match text {
        _ if text.eq_ignore_ascii_case("standard") => Some(RehydratePriority::Standard),
        _ if text.eq_ignore_ascii_case("high") => Some(RehydratePriority::High),
        _ => None,
    })?;
    Ok(priority.unwrap_or_default())
}

/// What is read of a blob: `x-ms-range`, or `Range` if that is not given. One range only; one of another form is ignored,
/// as HTTP says.
pub(super) fn range_read(headers: &HeaderMap) -> Option<ByteRange> {
    given_range(headers).and_then(|(_, text)| parse_range(text))
}

/// What is written to a blob, in the same headers. It must be given, and one of another form is refused.
pub(super) fn range_written(headers: &HeaderMap) -> Result<ByteRange, ServiceError> {
    let (name, text) = given_range(headers).ok_or_else(|| missing_header("Range"))?;
    parse_range(text).ok_or_else(|| invalid_header(name, text))
}

fn given_range(headers: &HeaderMap) -> Option<(&'static str, &str)> {
    ["x-ms-range", "range"].into_iter().find_map(|name| Some((name, given(headers, name)?)))
}

/// `bytes=5-` or `bytes=5-9`.
pub(super) fn parse_range(text: &str) -> Option<ByteRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.trim().parse().ok()?;
    let last = match last.trim() {
        "" => None,
        last => Some(last.parse().ok()?),
    };
    last.is_none_or(|last| last >= first).then_some(ByteRange { first, last })
}

/// Refuses what this server does not do though the answer would look as if it did: a client that sends a key of its
/// own, or asks for content that cannot be deleted, must not believe that it was heard.
pub(super) fn refuse_unsupported(headers: &HeaderMap) -> Result<(), ServiceError> {
    const UNSUPPORTED: [&str; 8] = [
        "x-ms-encryption-key",
        "x-ms-encryption-scope",
        "x-ms-source-encryption-key",
        "x-ms-immutability-policy-until-date",
        "x-ms-immutability-policy-mode",
        "x-ms-legal-hold",
        "x-ms-structured-body",
        "x-ms-previous-snapshot-url",
    ];
    // One pass over the few headers that are given: nearly always it finds none.
    let found = headers.iter().find_map(|(given, value)| {
        let name = UNSUPPORTED.into_iter().find(|name| given.as_str() == *name)?;
        (!value.as_bytes().trim_ascii().is_empty()).then_some(name)
    });
    found.map_or(Ok(()), |name| Err(unsupported_header(name)))
}

/// The same for a new container: blobs have the encryption of the account, whatever a client asks for. What every
/// container has may be asked for.
pub(super) fn refuse_encryption_scope(headers: &HeaderMap) -> Result<(), ServiceError> {
    const SUPPORTED: [(&str, &str); 2] = [
        ("x-ms-default-encryption-scope", "$account-encryption-key"),
        ("x-ms-deny-encryption-scope-override", "false"),
    ];
    for (name, supported) in SUPPORTED {
        if given(headers, name).is_some_and(|value| !value.eq_ignore_ascii_case(supported)) {
            return Err(unsupported_header(name));
        }
    }
    Ok(())
}

fn unsupported_header(name: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::UnsupportedHeader).with_detail("HeaderName", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_header_is_found_among_few_and_among_many() {
        for count in [0, FEW_HEADERS, FEW_HEADERS * 2] {
            let mut headers = headers(&[("x-ms-range", " first "), ("x-ms-lease-id", "")]);
            headers.append("x-ms-range", "second".parse().unwrap());
            for number in 0..count {
                headers.insert(format!("x-{number}").parse::<http::HeaderName>().unwrap(), number.into());
            }
            assert_eq!(given(&headers, "x-ms-range"), Some("first"), "{count}");
            assert_eq!(given(&headers, "x-ms-lease-id"), None, "{count}");
            assert_eq!(given(&headers, "x-ms-if-tags"), None, "{count}");
        }
    }

    #[test]
    fn ranges_have_a_start_and_perhaps_an_end() {
        let check = |text: &str, expected: Option<(u64, Option<u64>)>| {
            assert_eq!(parse_range(text).map(|range| (range.first, range.last)), expected, "{text}");
        };
        check("bytes=0-0", Some((0, Some(0))));
        check("bytes=5-", Some((5, None)));
        for text in ["", "bytes=", "bytes=-5", "bytes=5-4", "bytes=1-2,4-5", "items=0-1", "bytes=a-b"] {
            check(text, None);
        }
    }

    #[test]
    fn a_range_of_another_form_is_ignored_by_reads_and_refused_by_writes() {
        let both = headers(&[("range", "bytes=1-2"), ("x-ms-range", "bytes=3-4")]);
        let second = ByteRange { first: 3, last: Some(4) };
        assert_eq!(range_read(&both), Some(second));
        assert_eq!(range_written(&both).unwrap(), second);
        // The last two are what the Go client sends for negative offsets, and it expects the whole blob.
        for text in ["bytes=-5", "bytes=-1-", "bytes=-2-497"] {
            for name in ["range", "x-ms-range"] {
                let bad = headers(&[(name, text)]);
                assert_eq!(range_read(&bad), None, "{name}: {text}");
                assert_eq!(range_written(&bad).unwrap_err().code, ErrorCode::InvalidHeaderValue);
            }
        }
        assert_eq!(range_written(&headers(&[])).unwrap_err().code, ErrorCode::MissingRequiredHeader);
    }

    #[test]
    fn a_read_takes_any_conditions_and_a_write_one_or_an_etag_with_its_time() {
        const TIME: &str = "Fri, 01 May 2020 00:21:22 GMT";
        const ETAG: &str = "\"0x8D7ED6593B3B372\"";
        const LIST: &str = "\"0x8D7ED6593B3B372\", \"0x8D7ED6593B3B373\"";
        let shown = |found: Result<BlobConditions, ServiceError>| match found {
            Ok(BlobConditions { version, .. }) => [
                version.if_match.map(|_| "match"),
                version.if_none_match.map(|_| "none-match"),
                version.if_modified_since.map(|_| "modified"),
                version.if_unmodified_since.map(|_| "unmodified"),
            ]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
            Err(error) => error.code.as_str().to_owned(),
        };
        let check = |pairs: &[(&'static str, &str)], read: &str, write: &str| {
            let headers = headers(pairs);
            let version = |text| ApiVersion::parse(text).unwrap();
            assert_eq!(shown(read_conditions(&headers, &version("2013-08-15"))), read, "{pairs:?}");
            assert_eq!(shown(read_conditions(&headers, &version("2012-02-12"))), write, "{pairs:?}");
            assert_eq!(shown(write_conditions(&headers)), write, "{pairs:?}");
        };
        const REFUSED: &str = "MultipleConditionHeadersNotSupported";
        let (matches, none_match) = (("if-match", ETAG), ("if-none-match", ETAG));
        let (modified, unmodified) = (("if-modified-since", TIME), ("if-unmodified-since", TIME));
        check(&[], "", "");
        check(&[matches], "match", "match");
        check(&[unmodified], "unmodified", "unmodified");
        check(&[none_match, modified], "none-match modified", "none-match");
        check(&[matches, unmodified], "match unmodified", "match");
        check(&[matches, none_match], "match none-match", REFUSED);
        check(&[matches, modified], "match modified", REFUSED);
        check(&[none_match, unmodified], "none-match unmodified", REFUSED);
        check(&[modified, unmodified], "modified unmodified", REFUSED);
        check(&[matches, unmodified, modified], "match modified unmodified", REFUSED);
        check(&[("if-match", LIST)], "match", REFUSED);
        check(&[("if-none-match", LIST)], "none-match", REFUSED);
        check(&[("if-match", "*")], "match", "match");
        check(&[("if-none-match", "*")], "UnsatisfiableCondition", "none-match");
    }

    #[test]
    fn a_container_takes_conditions_on_times_alone() {
        let time = "Fri, 01 May 2020 00:21:22 GMT";
        let found = container_conditions(&headers(&[
            ("if-none-match", "*"),
            ("if-match", "\"0x1\""),
            ("if-modified-since", time),
        ]))
        .unwrap();
        let expected = DateTime::parse_rfc1123(time);
        assert_eq!(
            found.version,
            VersionConditions { if_modified_since: expected, ..VersionConditions::default() }
        );
    }

    #[test]
    fn sums_are_base64_of_their_length() {
        let good =
            headers(&[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), ("x-ms-content-crc64", "AQAAAAAAAAA=")]);
        let sums = body_sums(&good).unwrap();
        assert_eq!(sums.crc64, Some(1));
        assert_eq!(sums.md5.map(write_md5).as_deref(), Some("1B2M2Y8AsgTpgAmY7PhCfg=="));
        assert_eq!(write_crc64(1), "AQAAAAAAAAA=");
        let code = |pairs| body_sums(&headers(pairs)).unwrap_err().code;
        assert_eq!(code(&[("content-md5", "AQAAAAAAAAA=")]), ErrorCode::InvalidMd5);
        assert_eq!(code(&[("x-ms-content-crc64", "no base64")]), ErrorCode::InvalidCrc64);
    }

    #[test]
    fn the_headers_of_an_upload_stand_in_for_those_of_the_blob() {
        let kept = uploaded_headers(&headers(&[
            ("content-type", "text/plain"),
            ("content-language", "en"),
            ("x-ms-blob-content-language", "de"),
        ]));
        let kept = kept.unwrap();
        assert_eq!(kept.content_type.as_deref(), Some("text/plain"));
        assert_eq!(kept.content_language.as_deref(), Some("de"));
        let none = uploaded_headers(&headers(&[])).unwrap();
        assert_eq!(none.content_type.as_deref(), Some(CONTENT_TYPE_DEFAULT));
    }

    #[test]
    fn what_this_server_does_not_do_is_refused() {
        for name in ["x-ms-encryption-key", "x-ms-previous-snapshot-url", "x-ms-structured-body"] {
            let error = refuse_unsupported(&headers(&[(name, "k")])).unwrap_err();
            assert_eq!(error.code, ErrorCode::UnsupportedHeader, "{name}");
            refuse_unsupported(&headers(&[(name, "")])).unwrap();
        }
        let check = |name, value, is_refused: bool| {
            let done = refuse_encryption_scope(&headers(&[(name, value)]));
            assert_eq!(
                done.err().map(|error| error.code),
                is_refused.then_some(ErrorCode::UnsupportedHeader),
                "{name}: {value}"
            );
        };
        check("x-ms-default-encryption-scope", "mine", true);
        check("x-ms-default-encryption-scope", "$account-encryption-key", false);
        check("x-ms-default-encryption-scope", "", false);
        check("x-ms-deny-encryption-scope-override", "true", true);
        check("x-ms-deny-encryption-scope-override", "false", false);
    }
}
