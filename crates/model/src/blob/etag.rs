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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`: whatever exists.
    Any,
    /// Exactly this version.
    Is(BlobEtag),
    /// A text that no version of ours has.
    Foreign,
}

impl EtagMatch {
    /// Reads the value of the header. Quotes may be missing, as clients of old leave them out.
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text == "*" {
            return Self::Any;
        }
        let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
        BlobEtag::parse(inner).map_or(Self::Foreign, Self::Is)
    }

    /// Whether something that exists in this version is named.
    pub fn names(self, etag: BlobEtag) -> bool {
        match self {
            Self::Any => true,
            Self::Is(named) => named == etag,
            Self::Foreign => false,
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
}
