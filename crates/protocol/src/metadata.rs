//! Metadata headers, whose names clients choose and whose case is kept.

use http::HeaderMap;
use tavola_model::{ErrorCode, Metadata, ServiceError};

const METADATA_PREFIX: &str = "x-ms-meta-";

/// The metadata of a request. `names` are those of its metadata headers as the client wrote them; those that are missing
/// are in lower case.
pub(crate) fn read_metadata(headers: &HeaderMap, names: &[String]) -> Result<Metadata, ServiceError> {
    let mut pairs = Vec::new();
    for (header, value) in headers {
        let Some(name) = header.as_str().strip_prefix(METADATA_PREFIX) else { continue };
        let cased = names
            .iter()
            .rev()
            .filter_map(|cased| cased.get(METADATA_PREFIX.len()..))
            .find(|cased| cased.eq_ignore_ascii_case(name));
        let value = value.to_str().map_err(|_| ErrorCode::InvalidMetadata)?;
        pairs.push((cased.unwrap_or(name).to_owned(), value.trim().to_owned()));
    }
    Metadata::parse(pairs)
}

/// The headers of an answer that carry metadata.
pub(crate) fn metadata_headers(metadata: &Metadata) -> Vec<(String, String)> {
    metadata.iter().map(|(name, value)| (format!("{METADATA_PREFIX}{name}"), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_keeps_the_case_in_which_it_was_written() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-ms-meta-upper", " a "), ("x-ms-meta-lower", "b"), ("x-ms-metadata", "c")] {
            headers.append(name, value.parse().unwrap());
        }
        let metadata = read_metadata(&headers, &["X-MS-Meta-UPPER".to_owned()]).unwrap();
        assert_eq!(metadata.iter().collect::<Vec<_>>(), [("lower", "b"), ("UPPER", "a")]);
    }
}
