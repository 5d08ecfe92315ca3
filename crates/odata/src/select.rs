//! `$select`: property names with commas between them.

use tavola_model::{ErrorCode, SELECT_NAMES_MAX, ServiceError};

use crate::error::{Fault, ParseError};
use crate::lexer::is_word_part;

/// Reads the selected names; blank text and `*` select everything, which is `None`.
pub fn parse_select(text: &str) -> Result<Option<Vec<String>>, ServiceError> {
    let mut names = Vec::new();
    let mut at = 0;
    for piece in text.split(',') {
        let name = piece.trim();
        let name_at = at + (piece.len() - piece.trim_start().len());
        at += piece.len() + 1;
        let is_last = at > text.len();
        if name.is_empty() && is_last {
            break;
        }
        if name == "*" {
            return Ok(None);
        }
        if !is_identifier(name) {
            let error = ParseError { at: name_at, fault: Fault::IdentifierExpected };
            return Err(error.into_service_error(text));
        }
        if names.len() == SELECT_NAMES_MAX {
            return Err(ErrorCode::InvalidInput.into());
        }
        names.push(name.to_owned());
    }
    Ok((!names.is_empty()).then_some(names))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(is_word_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<Option<&[&str]>, &str>) {
        let parsed = parse_select(text).map_err(|error| error.message.into_owned());
        let expected = expected
            .map(|names| names.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()))
            .map_err(str::to_owned);
        assert_eq!(parsed, expected, "{text:?}");
    }

    #[test]
    fn names_are_split_at_commas_and_trimmed() {
        check("age,sex", Ok(Some(&["age", "sex"])));
        check(" age, sex ", Ok(Some(&["age", "sex"])));
        check("age,", Ok(Some(&["age"])));
        check("_ClientEncryptionMetadata1,größe", Ok(Some(&["_ClientEncryptionMetadata1", "größe"])));
    }

    #[test]
    fn blank_text_and_a_star_select_everything() {
        check("", Ok(None));
        check(" ", Ok(None));
        check("*", Ok(None));
        check("age,*", Ok(None));
    }

    #[test]
    fn anything_else_is_no_identifier() {
        check("['age, sex']", Err("An identifier was expected at position 0."));
        check("age,,sex", Err("An identifier was expected at position 4."));
        check("age, 1x", Err("An identifier was expected at position 5."));
        check(",age", Err("An identifier was expected at position 0."));
    }

    #[test]
    fn more_names_than_the_limit_are_refused() {
        assert!(parse_select(&"n,".repeat(SELECT_NAMES_MAX)).is_ok());
        assert_eq!(
            parse_select(&"n,".repeat(SELECT_NAMES_MAX + 1)).unwrap_err().code,
            ErrorCode::InvalidInput
        );
    }
}
