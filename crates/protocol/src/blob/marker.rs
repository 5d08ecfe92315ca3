//! Where the next page begins, as an opaque text: `2!{length}!{base64}` of lengths and names.
//!
//! The inner text of a list of blobs is that of the real service, `{length}!{name}!000028!{time}!`; the characters of
//! base64 that need encoding in a query are replaced.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tavola_model::{BlobCursor, DateTime, FindCursor, ServiceError};

/// The marker of a place in a list of blobs.
pub(super) fn write_cursor(cursor: &BlobCursor) -> String {
    wrap(&[&cursor.name, &cursor.at.to_text_7_digits()])
}

/// Reads the marker of a place in a list of blobs.
pub(super) fn read_cursor(marker: &str) -> Result<BlobCursor, ServiceError> {
    let cursor = unwrap(marker).and_then(|[name, at]| {
        let at = DateTime::parse(&at)?;
        Some(BlobCursor { name, at })
    });
    cursor.ok_or_else(ServiceError::out_of_range)
}

/// The marker of a place among blobs found by tags.
pub(super) fn write_find_cursor(cursor: &FindCursor) -> String {
    wrap(&[&cursor.container, &cursor.tag, &cursor.value, &cursor.name])
}

/// Reads the marker of a place among blobs found by tags.
pub(super) fn read_find_cursor(marker: &str) -> Result<FindCursor, ServiceError> {
    let cursor =
        unwrap(marker).map(|[container, tag, value, name]| FindCursor { container, tag, value, name });
    cursor.ok_or_else(ServiceError::out_of_range)
}

fn wrap(texts: &[&str]) -> String {
    let inner: String = texts.iter().map(|text| format!("{:06}!{text}!", text.len())).collect();
    let encoded = STANDARD.encode(inner).replace('=', "-").replace('+', "*").replace('/', "_");
    format!("2!{}!{encoded}", encoded.len())
}

fn unwrap<const COUNT: usize>(marker: &str) -> Option<[String; COUNT]> {
    let (length, encoded) = marker.strip_prefix("2!")?.split_once('!')?;
    if length.parse() != Ok(encoded.len()) {
        return None;
    }
    let encoded = encoded.replace('-', "=").replace('*', "+").replace('_', "/");
    let inner = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (mut rest, mut texts) = (inner.as_str(), Vec::with_capacity(COUNT));
    for _ in 0..COUNT {
        let (length, after) = rest.split_once('!')?;
        let (text, after) = after.split_at_checked(length.parse().ok()?)?;
        texts.push(text.to_owned());
        rest = after.strip_prefix('!')?;
    }
    if rest.is_empty() { texts.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_of_a_blob_is_as_recorded() {
        let recorded = "2!100!MDAwMDI5IWJsb2NrYmxvYi8xMTY3NzE5ODc4NDE4NTAyMTcyITAwMDAyOCE5OTk5LTEyLTMxVDIzOjU5OjU5Ljk5OTk5OTlaIQ--";
        let cursor = read_cursor(recorded).unwrap();
        assert_eq!(cursor, BlobCursor { name: "blockblob/1167719878418502172".into(), at: DateTime::MAX });
        assert_eq!(write_cursor(&cursor), recorded);
    }

    #[test]
    fn any_name_comes_back_and_other_text_is_out_of_range() {
        let found = |name: &str| FindCursor {
            container: "c".into(),
            tag: "t".into(),
            value: String::new(),
            name: name.into(),
        };
        for name in ["", "a!b", "000003!x", "ü/\u{1F600}", "???>>>"] {
            let cursor = found(name);
            assert_eq!(read_find_cursor(&write_find_cursor(&cursor)).unwrap(), cursor);
        }
        let good = write_cursor(&BlobCursor { name: "abc".into(), at: DateTime::MAX });
        for marker in ["", "x", "/acct/name", "2!1!A", &good[..good.len() - 1], &format!("{good}A")] {
            assert!(read_cursor(marker).is_err(), "{marker}");
        }
        assert!(read_cursor(&write_find_cursor(&found("n"))).is_err());
    }
}
