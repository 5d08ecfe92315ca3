//! The source of a copy: its address, and what is asked of it.

use http::HeaderMap;
use tavola_model::{
    Address, BlobMoment, BlobTarget, COPY_SOURCE_BYTES_MAX, CopySource, DateTime, FromUrl, Query,
    ServiceError, is_signature,
};

use super::headers::{given, invalid_header, missing_header, parse_range, parsed, source_conditions, sums};
use super::route::blob_of_path;

const COPY_SOURCE: &str = "x-ms-copy-source";

/// What a request reads from another blob.
pub(super) fn from_url(headers: &HeaderMap, bytes_max: u64) -> Result<FromUrl, ServiceError> {
    Ok(FromUrl {
        source: copy_source(headers)?,
        range: parsed(headers, "x-ms-source-range", parse_range)?,
        bytes_max,
        sums: sums(headers, "x-ms-source-content-md5", "x-ms-source-content-crc64")?,
        conditions: source_conditions(headers)?,
    })
}

/// The source that a request names.
pub(super) fn copy_source(headers: &HeaderMap) -> Result<CopySource, ServiceError> {
    let url = given(headers, COPY_SOURCE).ok_or_else(|| missing_header(COPY_SOURCE))?;
    let source = parse(url).filter(|_| url.len() <= COPY_SOURCE_BYTES_MAX);
    let mut source = source.ok_or_else(|| invalid_header(COPY_SOURCE, url))?;
    source.authorization = given(headers, "x-ms-copy-source-authorization").map(str::to_owned);
    Ok(source)
}

/// Reads `https://host[:port]/path[?query]`.
fn parse(url: &str) -> Option<CopySource> {
    let (scheme, rest) = url.split_once("://")?;
    let is_secure = match scheme {
        _ if scheme.eq_ignore_ascii_case("https") => true,
        _ if scheme.eq_ignore_ascii_case("http") => false,
        _ => return None,
    };
    let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, path) = before.split_at(before.find('/')?);
    if host.is_empty() || host.contains(['@', ' ']) {
        return None;
    }
    let parameters = Query::parse(query)?;
    let shown_query: Vec<&str> = query.split('&').filter(|part| !is_signature(part)).collect();
    let mark = if shown_query.concat().is_empty() { "" } else { "?" };
    Some(CopySource {
        shown: [scheme, "://", before, mark, &shown_query.join("&")].concat(),
        host: host.to_owned(),
        path: path.to_owned(),
        target: target(host, path, &parameters),
        query: parameters.into_owned(),
        authorization: None,
        is_secure,
    })
}

/// The account and the blob, if the address has the form of ours.
fn target(host: &str, path: &str, query: &Query<'_>) -> Option<(tavola_model::AccountName, BlobTarget)> {
    let address = Address::parse(host, path)?;
    let path = blob_of_path(address.path)?;
    let moment = match (query.get("snapshot"), query.get("versionid")) {
        (None, None) => BlobMoment::Current,
        (Some(snapshot), None) => BlobMoment::Snapshot(DateTime::parse(snapshot)?),
        (None, Some(version)) => BlobMoment::Version(DateTime::parse(version)?),
        (Some(_), Some(_)) => return None,
    };
    Some((address.account, BlobTarget { path, moment }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, expected: &str) {
        let shown = parse(url).map(|source| {
            let target = source.target.map(|(account, target)| format!("{account}/{}", target.path));
            format!("{} {}", source.shown, target.unwrap_or_else(|| "foreign".to_owned()))
        });
        assert_eq!(shown.as_deref().unwrap_or("refused"), expected, "{url}");
    }

    #[test]
    fn an_address_is_shown_without_its_signature() {
        check(
            "https://acct.blob.core.windows.net/con/a%20b",
            "https://acct.blob.core.windows.net/con/a%20b acct/con/a b",
        );
        check(
            "http://127.0.0.1:10000/acct/con/b?se=1&sig=X%3D&sp=r",
            "http://127.0.0.1:10000/acct/con/b?se=1&sp=r acct/con/b",
        );
        for name in ["sig", "SIG", "s%69g", "%73%69%67"] {
            let url = format!("http://127.0.0.1:10000/acct/con/b?{name}=X");
            check(&url, "http://127.0.0.1:10000/acct/con/b acct/con/b");
            let url = format!("http://127.0.0.1:10000/acct/con/b?&a&&{name}=X&b=1&{name}=Y");
            check(&url, "http://127.0.0.1:10000/acct/con/b?&a&&b=1 acct/con/b");
        }
        check(
            "https://www.gutenberg.org/files/5/5-0.txt",
            "https://www.gutenberg.org/files/5/5-0.txt www/files/5/5-0.txt",
        );
        check("https://example.org/", "https://example.org/ foreign");
        for url in ["", "8314da88-da2f-4560-a746-94392587ea9f", "ftp://a/b", "https://host", "https:///path"]
        {
            check(url, "refused");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let source = parse("http://127.0.0.1/acct/con/b?sig=SECRET").unwrap();
        assert_eq!(source.query.get("sig"), Some("SECRET"));
        assert!(!format!("{source:?}").contains("SECRET"));
    }
}
