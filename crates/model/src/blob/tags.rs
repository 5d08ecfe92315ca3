//! Tags of blobs, and conditions on them.
//!
//! Invariant: what exists of this type is valid.

use crate::{ErrorCode, ServiceError};

/// Tags of a blob at most
/// (<https://learn.microsoft.com/azure/storage/blobs/storage-manage-find-blobs>); the same page has the lengths.
pub const TAGS_MAX: usize = 10;
/// Characters of a tag's name.
pub const TAG_NAME_CHARS_MAX: usize = 128;
/// Characters of a tag's value.
pub const TAG_VALUE_CHARS_MAX: usize = 256;

/// The tags of a blob, by name. Names and values keep their case and compare with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlobTags(Vec<(String, String)>);

impl BlobTags {
    /// Accepts tags of valid names and values, each name once.
    pub fn parse(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, ServiceError> {
        let mut kept: Vec<(String, String)> = pairs.into_iter().collect();
        let is_valid = |(name, value): &(String, String)| {
            let lengths = (1..=TAG_NAME_CHARS_MAX).contains(&name.chars().count())
                && value.chars().count() <= TAG_VALUE_CHARS_MAX;
            lengths && name.chars().chain(value.chars()).all(is_tag_character)
        };
        kept.sort();
        let is_repeated = kept.windows(2).any(|pair| pair[0].0 == pair[1].0);
        if kept.len() > TAGS_MAX || is_repeated || !kept.iter().all(is_valid) {
            return Err(ErrorCode::InvalidTag.into());
        }
        Ok(Self(kept))
    }

    /// The value of a tag.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn is_tag_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || " +-./:=_".contains(character)
}

/// A condition on tags: of `x-ms-if-tags`, or the `where` of Find Blobs by Tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagFilter {
    /// A tag compared with a value, as text; a blob without the tag has none that compares.
    Compare {
        /// The tag.
        name: String,
        /// How.
        comparison: TagComparison,
        /// With what.
        value: String,
    },
    /// All of them.
    And(Vec<TagFilter>),
    /// One of them.
    Or(Vec<TagFilter>),
}

/// How a tag is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum TagComparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl TagComparison {
    fn holds(self, left: &str, right: &str) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl TagFilter {
    /// Whether a blob with these tags is meant. Trees are no deeper than their parser allows.
    pub fn admits(&self, tags: &BlobTags) -> bool {
        match self {
            Self::Compare { name, comparison, value } => match tags.get(name) {
                Some(found) => comparison.holds(found, value),
                None => *comparison == TagComparison::NotEqual,
            },
            Self::And(parts) => parts.iter().all(|part| part.admits(tags)),
            Self::Or(parts) => parts.iter().any(|part| part.admits(tags)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Result<BlobTags, ErrorCode> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        BlobTags::parse(pairs).map_err(|error| error.code)
    }

    #[test]
    fn ten_tags_of_the_alphabet_are_the_most() {
        let names: Vec<String> = (0..11).map(|n| format!("t{n}")).collect();
        let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v w+-./:=_")).collect();
        assert_eq!(tags(&pairs[..10]).unwrap().len(), 10);
        assert_eq!(tags(&pairs), Err(ErrorCode::InvalidTag));
        let (name, value) = ("n".repeat(128), "v".repeat(256));
        assert!(tags(&[(&name, &value)]).is_ok());
        let (name, value) = ("n".repeat(129), "v".repeat(257));
        for pair in [("", "v"), (&*name, "v"), ("n", &*value), ("a&b", "v"), ("a", "ü")] {
            assert_eq!(tags(&[pair]), Err(ErrorCode::InvalidTag), "{pair:?}");
        }
        assert_eq!(tags(&[("a", "1"), ("a", "2")]), Err(ErrorCode::InvalidTag));
    }

    #[test]
    fn values_compare_as_text_and_a_missing_tag_is_unequal_to_all() {
        let compare = |name: &str, comparison, value: &str| TagFilter::Compare {
            name: name.into(),
            comparison,
            value: value.into(),
        };
        let tags = tags(&[("a", "10"), ("b", "x")]).unwrap();
        assert!(compare("a", TagComparison::Less, "9").admits(&tags));
        assert!(!compare("c", TagComparison::Less, "9").admits(&tags));
        assert!(compare("c", TagComparison::NotEqual, "9").admits(&tags));
        let both = |first, second| vec![compare("a", first, "10"), compare("b", second, "x")];
        assert!(TagFilter::And(both(TagComparison::Equal, TagComparison::GreaterOrEqual)).admits(&tags));
        assert!(!TagFilter::And(both(TagComparison::Equal, TagComparison::Greater)).admits(&tags));
        assert!(TagFilter::Or(both(TagComparison::Equal, TagComparison::Greater)).admits(&tags));
    }
}
