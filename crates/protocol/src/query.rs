//! The query string: split, decoded once, looked up by exact name.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// The parameters of a query, in order.
#[derive(Clone, Debug, Default)]
pub struct Query<'a> {
    pairs: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Splits and decodes a raw query. `None` if a part does not decode to UTF-8.
    pub fn parse(raw: &'a str) -> Option<Self> {
        let mut pairs = Vec::new();
        for part in raw.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            pairs.push((decode(name)?, decode(value)?));
        }
        Some(Self { pairs })
    }

    /// The first value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_ref())
    }
}

/// Percent-decodes one component; `+` is a space, as in every query string the SDKs write.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(Cow::Borrowed(text));
    }
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(|text| Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_decoded_once() {
        let query = Query::parse("$filter=a%20eq%20%27%2525%27&x&$top=5&plus=a+b%2B").unwrap();
        assert_eq!(query.get("$filter"), Some("a eq '%25'"));
        assert_eq!(query.get("x"), Some(""));
        assert_eq!(query.get("plus"), Some("a b+"));
        assert_eq!(query.get("missing"), None);
        assert!(Query::parse("a=%ff").is_none());
    }
}
