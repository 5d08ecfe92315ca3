//! ETags of containers and blobs: the time of the last change, in ticks, as `"0x8DA87A3DCF780FE"`.

use std::fmt;

use crate::DateTime;

/// The version of a container or a blob. Shown without quotes, as listings have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobEtag(pub DateTime);

impl BlobEtag {
    /// With its quotes, as headers have it.
    pub fn quoted(self) -> String {
        // By hand: nearly every answer about a blob has one, and formatting costs as much as all of its other headers.
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        let digits = self.0.ticks().to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        let shown = digits.enumerate().skip_while(|(index, digit)| *digit == 0 && *index < 15);
        let mut quoted = String::with_capacity(20);
        quoted.push_str("\"0x");
        quoted.extend(shown.map(|(_, digit)| char::from(DIGITS[usize::from(digit)])));
        quoted.push('"');
        quoted
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"))?;
        let ticks = u64::from_str_radix(digits, 16).ok()?;
        DateTime::from_ticks(ticks).map(Self)
    }
}

impl fmt::Display for BlobEtag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:X}", self.0.ticks())
    }
}

/// What `If-Match` or `If-None-Match` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: whatever exists.
    Any,
    /// Exactly this version.
    Is(BlobEtag),
    /// A text that no version of ours has.
    Foreign,
    /// One of several, those left out that no version of ours has. Reads take lists, writes do not.
    OneOf(Vec<BlobEtag>),
}

impl EtagMatch {
    /// Reads the value of the header. Quotes may be missing, as clients of old leave them out.
    pub fn parse(text: &str) -> Self {
        let mut is_quoted = false;
        let is_comma = |character: char| {
            is_quoted ^= character == '"';
            character == ',' && !is_quoted
        };
        let mut parts: Vec<Self> = text.split(is_comma).map(Self::parse_one).collect();
        match parts.pop() {
            Some(only) if parts.is_empty() => only,
            last => {
                let all = || parts.iter().chain(last.as_ref());
                let known = |part: &Self| if let Self::Is(etag) = part { Some(*etag) } else { None };
                if all().any(|part| *part == Self::Any) {
                    return Self::Any;
                }
                Self::OneOf(all().filter_map(known).collect())
            }
        }
    }

    fn parse_one(text: &str) -> Self {
        let text = text.trim();
        if text == "*" {
            return Self::Any;
        }
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        BlobEtag::parse(inner).map_or(Self::Foreign, Self::Is)
    }

    /// Whether something that exists in this version is named.
    pub fn names(&self, etag: BlobEtag) -> bool {
        match self {
            Self::Any => true,
            Self::Is(named) => *named == etag,
            Self::Foreign => false,
            Self::OneOf(named) => named.contains(&etag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_round_trips_through_its_text() {
        for text in ["\"0x8DA87A3DCF780FE\"", "0x8DA87A3DCF780FE", "\"0x8da87a3dcf780fe\""] {
            let EtagMatch::Is(etag) = EtagMatch::parse(text) else { panic!("not an etag") };
            assert_eq!(etag.quoted(), "\"0x8DA87A3DCF780FE\"");
            assert!(EtagMatch::parse(text).names(etag));
            assert!(EtagMatch::Any.names(etag));
            assert!(!EtagMatch::Foreign.names(etag));
        }
        for ticks in [0, 1, 0xF, 0x10, 638_000_000_000_000_000] {
            let etag = BlobEtag(DateTime::from_ticks(ticks).expect("a time"));
            assert_eq!(etag.quoted(), format!("\"{etag}\""));
        }
        for text in ["\"abc\"", "W/\"0x8DA87A3DCF780FE\"", "", "\"0xFFFFFFFFFFFFFFFF\""] {
            assert_eq!(EtagMatch::parse(text), EtagMatch::Foreign, "{text}");
        }
    }

    #[test]
    fn several_etags_name_each_of_them() {
        let etag = |ticks| BlobEtag(DateTime::from_ticks(ticks).expect("a time"));
        let check = |text: &str, expected: EtagMatch| assert_eq!(EtagMatch::parse(text), expected, "{text}");
        check("\"0x1\", \"0x2\"", EtagMatch::OneOf(vec![etag(1), etag(2)]));
        check("0x1,abc", EtagMatch::OneOf(vec![etag(1)]));
        check("\"0x1\",*", EtagMatch::Any);
        check("\"a,b\"", EtagMatch::Foreign);
        let several = EtagMatch::parse("0x1,0x2");
        assert!(several.names(etag(1)) && several.names(etag(2)) && !several.names(etag(3)));
    }
}
