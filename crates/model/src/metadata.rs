//! Metadata: names and values that a client keeps with a queue or a container.
//!
//! Names are identifiers that keep the case they were given and compare without it.
//!
//! Invariant: what exists of this type is valid.

use crate::{ErrorCode, METADATA_BYTES_MAX, ServiceError};

/// Names and values that a client keeps with a resource, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(Vec<(String, String)>);

impl Metadata {
    /// Accepts pairs whose names are identifiers. Of two names that differ only in case the values are joined,
    /// as those of a repeated header are.
    pub fn parse(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, ServiceError> {
        let mut kept: Vec<(String, String)> = Vec::new();
        let mut bytes = 0;
        for (name, value) in pairs {
            if name.is_empty() {
                return Err(
                    ServiceError::new(ErrorCode::EmptyMetadataKey).with_detail("MetadataValue", value)
                );
            }
            let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
            let goes_on_well = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let is_text = value.bytes().all(|byte| (b' '..=b'~').contains(&byte) || byte == b'\t');
            if !starts_well || !goes_on_well || !is_text {
                return Err(ErrorCode::InvalidMetadata.into());
            }
            bytes += name.len() + value.len();
            match kept.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
                Some((_, joined)) => {
                    joined.push(',');
                    joined.push_str(&value);
                }
                None => kept.push((name, value)),
            }
        }
        if bytes > METADATA_BYTES_MAX {
            return Err(ErrorCode::MetadataTooLarge.into());
        }
        kept.sort_by_cached_key(|(name, _)| name.to_ascii_lowercase());
        Ok(Self(kept))
    }

    /// The pairs by name, without regard to case.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_metadata(pairs: &[(&str, &str)], expected: &str) {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let shown = match Metadata::parse(pairs) {
            Ok(metadata) => metadata.iter().map(|(name, value)| format!("{name}={value};")).collect(),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn metadata_is_sorted_without_regard_to_case_and_keeps_it() {
        check_metadata(&[("foo", "1"), ("UPPER", "2"), ("Capital", "3")], "Capital=3;foo=1;UPPER=2;");
        check_metadata(&[("a", "1"), ("A", "2")], "a=1,2;");
        check_metadata(&[], "");
    }

    #[test]
    fn metadata_names_are_identifiers_and_sizes_are_bounded() {
        check_metadata(&[("_a9", "")], "_a9=;");
        for name in ["9a", "a-b", "a b", "é"] {
            check_metadata(&[(name, "v")], "InvalidMetadata");
        }
        check_metadata(&[("a", "é")], "InvalidMetadata");
        check_metadata(&[("", "v")], "EmptyMetadataKey");
        check_metadata(&[("a", &"v".repeat(METADATA_BYTES_MAX))], "MetadataTooLarge");
        check_metadata(
            &[("a", &"v".repeat(METADATA_BYTES_MAX - 1))],
            &format!("a={};", "v".repeat(METADATA_BYTES_MAX - 1)),
        );
    }
}
