//! The query of a request, parsed once: what is signed and what is executed come from the same parameters.
//!
//! Names compare without regard to ASCII case, as they are signed, except those that begin with `$`: the OData
//! options are exact. Of a name that is given twice the first counts.
//!
//! Written by hand because `form_urlencoded` replaces bytes that are not UTF-8, which must be refused here.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// Capacity for the parameters of a shared access signature.
const PARAMETERS_USUAL: usize = 10;

/// The parameters of a query, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query<'a> {
    parameters: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Splits and decodes a raw query without its `?`. `None` if a part does not decode to UTF-8.
    pub fn parse(raw: &'a str) -> Option<Self> {
        let count = if raw.is_empty() { 0 } else { PARAMETERS_USUAL };
        let mut parameters = Vec::with_capacity(count);
        for part in raw.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            parameters.push((decode(name)?, decode(value)?));
        }
        Some(Self { parameters })
    }

    /// The same without what it borrows.
    pub fn into_owned(self) -> Query<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        let parameters = self.parameters.into_iter().map(|(name, value)| (owned(name), owned(value)));
        Query { parameters: parameters.collect() }
    }

    /// The first value under this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| is_same_name(known, name)).map(|(_, value)| value)
    }

    /// Names and values, decoded, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.parameters.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }
}

/// Whether a raw part of a query is the signature of a token, however its name is written. It must never be shown.
pub fn is_signature(raw_part: &str) -> bool {
    let name = raw_part.split_once('=').map_or(raw_part, |(name, _)| name);
    decode(name).is_some_and(|name| name.eq_ignore_ascii_case("sig"))
}

fn is_same_name(one: &str, other: &str) -> bool {
    one == other || (!other.starts_with('$') && one.eq_ignore_ascii_case(other))
}

/// Percent-decodes one component; `+` is a space, as in every query string the SDKs write.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|byte| matches!(byte, b'%' | b'+')) {
        return Some(Cow::Borrowed(text));
    }
    let spaced = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decode_str(&spaced).decode_utf8().ok().map(|text| Cow::Owned(text.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, expected: &str) {
        let shown = match Query::parse(raw) {
            Some(query) => query.iter().map(|(name, value)| format!("{name}={value};")).collect(),
            None => "refused".to_owned(),
        };
        assert_eq!(shown, expected, "{raw}");
    }

    #[test]
    fn parts_are_decoded_once() {
        check("$filter=a%20eq%20%27%2525%27&x&$top=5", "$filter=a eq '%25';x=;$top=5;");
        check("x=a%20b+c%2B", "x=a b c+;");
        check("&&a&b=&c=1=2", "a=;b=;c=1=2;");
        check("x=%C3%A9%zz", "x=é%zz;");
        check("", "");
        check("x=%FF", "refused");
    }

    #[test]
    fn a_signature_is_known_however_its_name_is_written() {
        for part in ["sig=x", "SIG=x", "s%69g=x", "%73%69%67=", "sig"] {
            assert!(is_signature(part), "{part}");
        }
        for part in ["", "signed=1", "a=sig", "%FF=sig", "si+g=x"] {
            assert!(!is_signature(part), "{part}");
        }
    }

    #[test]
    fn names_compare_without_case_but_for_odata_options_and_the_first_counts() {
        let query = Query::parse("Comp=first&comp=second&$Top=1").unwrap();
        assert_eq!(query.get("comp"), Some("first"));
        assert_eq!(query.get("$top"), None);
        assert_eq!(query.get("missing"), None);
    }
}
