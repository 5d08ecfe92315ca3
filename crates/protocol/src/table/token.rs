//! Continuation tokens in the form of the real service: `1!{length}!{base64}` with `=` written as `-`.
//!
//! They are opaque to clients, but clients log, store and compare them, so they look as they always did.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Writes a token for a value.
pub fn write(value: &str) -> String {
    let coded = STANDARD.encode(value).replace('=', "-").replace('/', "_").replace('+', "*");
    format!("1!{}!{coded}", coded.len())
}

/// Reads a token; `None` if it was not written by `write`.
pub fn parse(token: &str) -> Option<String> {
    let (length, coded) = token.strip_prefix("1!")?.split_once('!')?;
    if length.parse::<usize>().ok()? != coded.len() {
        return None;
    }
    let plain = coded.replace('-', "=").replace('_', "/").replace('*', "+");
    String::from_utf8(STANDARD.decode(plain).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_token_reads_as_the_table_it_names() {
        let token = "1!36!aHVndWVzbm9kZQEwMWQwN2QxM2JmYmVkMzgw";
        assert_eq!(parse(token).unwrap(), "huguesnode\u{1}01d07d13bfbed380");
        assert_eq!(write("huguesnode\u{1}01d07d13bfbed380"), token);
    }

    #[test]
    fn any_value_round_trips_and_other_text_is_refused() {
        for value in ["", "a", "ab", "abc", "\u{1F600}?>~", "ÿÿÿ"] {
            assert_eq!(parse(&write(value)).as_deref(), Some(value));
        }
        for token in ["", "x", "1!", "1!4", "1!5!YWJj", "2!4!YWJj", "1!4!YW=j", "1!4!____"] {
            assert_eq!(parse(token), None, "{token}");
        }
    }
}
