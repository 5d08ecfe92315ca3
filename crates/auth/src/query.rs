//! Query parameters, decoded once and the same way for signatures and tokens.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// One parameter of a query: its name in lower case, its value decoded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub name: String,
    pub value: String,
}

/// The parameters of a raw query in their order; `None` if one is not UTF-8 once decoded. A `+` means a blank,
/// as some clients write it.
pub(crate) fn parse_query(query: &str) -> Option<Vec<Parameter>> {
    query
        .split('&')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            Some(Parameter { name: decode(name)?.to_lowercase(), value: decode(value)? })
        })
        .collect()
}

fn decode(text: &str) -> Option<String> {
    let text = if text.contains('+') { Cow::Owned(text.replace('+', " ")) } else { Cow::Borrowed(text) };
    percent_decode_str(&text).decode_utf8().ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: &str) {
        let shown = match parse_query(query) {
            Some(parameters) => {
                parameters.iter().map(|p| format!("{}={};", p.name, p.value)).collect::<String>()
            }
            None => "refused".to_owned(),
        };
        assert_eq!(shown, expected, "{query}");
    }

    #[test]
    fn names_are_lowered_and_values_decoded() {
        check("Comp=ACL&x=a%20b+c%2B", "comp=ACL;x=a b c+;");
        check("", "");
        check("&&a&b=&c=1=2", "a=;b=;c=1=2;");
        check("x=%C3%A9%zz", "x=é%zz;");
        check("x=%FF", "refused");
    }
}
