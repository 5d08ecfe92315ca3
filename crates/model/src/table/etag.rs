//! ETags: an entity's Timestamp in the weak form of the service, `W/"datetime'2020-07-20T15%3A56%3A31.714869Z'"`.

use std::fmt;

use crate::{DateTime, ErrorCode, ServiceError};

/// The version of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Etag(pub DateTime);

impl Etag {
    /// Bytes of the longest text, which nearly every one has.
    pub const LEN_MAX: usize = 46;

    /// Writes the text of the header.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"W/\"datetime'");
        self.0.write_trimmed("%3A", out);
        out.extend_from_slice(b"'\"");
    }

    fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
        let time = inner.replace("%3A", ":").replace("%3a", ":");
        DateTime::parse(&time).map(Etag)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(Self::LEN_MAX);
        self.write(&mut text);
        f.write_str(std::str::from_utf8(&text).expect("only ASCII is written"))
    }
}

/// What `If-Match` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtagCondition {
    /// `*`: the entity exists.
    Any,
    /// The entity exists with exactly this version.
    Is(Etag),
    /// A well-formed ETag that no entity of ours can have: never satisfied.
    Foreign,
}

impl EtagCondition {
    /// Reads the value of an `If-Match` header.
    pub fn parse(text: &str) -> Result<Self, ServiceError> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        if let Some(etag) = Etag::parse(text) {
            return Ok(Self::Is(etag));
        }
        let opaque = text.strip_prefix("W/").unwrap_or(text);
        let quoted = opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"');
        if quoted && !opaque[1..opaque.len() - 1].contains('"') {
            return Ok(Self::Foreign);
        }
        if text.is_empty() {
            return Err(ErrorCode::InvalidInput.into());
        }
        Err(ServiceError::with_message(
            ErrorCode::InvalidInput,
            format!(
                "The etag value '{text}' specified in one of the request headers is not valid. Please make sure only \
                 one etag value is specified and is valid."
            ),
        ))
    }

    /// Does an entity of this version satisfy the condition?
    pub fn admits(self, version: DateTime) -> bool {
        match self {
            Self::Any => true,
            Self::Is(etag) => etag.0 == version,
            Self::Foreign => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_round_trips_through_its_text() {
        let text = "W/\"datetime'2020-07-20T15%3A56%3A31.714869Z'\"";
        let EtagCondition::Is(etag) = EtagCondition::parse(text).unwrap() else { panic!("not an etag") };
        assert_eq!(etag.to_string(), text);
    }

    #[test]
    fn star_admits_all_and_a_foreign_etag_none() {
        assert!(EtagCondition::parse("*").unwrap().admits(DateTime::MIN));
        assert!(!EtagCondition::parse("W/\"abc\"").unwrap().admits(DateTime::MIN));
    }

    #[test]
    fn text_that_is_no_etag_is_invalid_input() {
        for text in ["", "abc", "W/\"a\", W/\"b\"", "\""] {
            assert_eq!(EtagCondition::parse(text).unwrap_err().code, ErrorCode::InvalidInput, "{text}");
        }
    }
}
