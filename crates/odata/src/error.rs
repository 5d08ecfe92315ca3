//! Why query text was refused: where, and what was expected there.
//!
//! Inside the crate a place is a byte offset; the service counts UTF-16 units, so the offset is turned into
//! units at the crate's door, where a `ParseError` becomes the answer a client sees.

use tavola_model::{ErrorCode, ServiceError};

/// A place in query text and what is wrong there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParseError {
    /// Byte offset.
    pub at: usize,
    pub fault: Fault,
}

/// What is wrong with query text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No token begins with this character.
    Character(char),
    /// Another token was expected.
    Syntax,
    UnterminatedString,
    UnterminatedLiteral,
    DigitExpected,
    ExpressionExpected,
    CloseParenOrOperatorExpected,
    IdentifierExpected,
    /// Text of the form of a type, but no value of it.
    Literal {
        edm_type: &'static str,
        literal: String,
    },
    /// Well formed, but not a question the service answers: `null`, property against property.
    Input,
    /// A key predicate that names no keys.
    QuerySyntax,
    /// A function or arithmetic.
    NotImplemented,
}

impl ParseError {
    /// What the client is told about this error in `text`.
    pub fn into_service_error(self, text: &str) -> ServiceError {
        let at = text.get(..self.at).unwrap_or(text).encode_utf16().count();
        let message = match self.fault {
            Fault::Character(character) => {
                format!("Syntax error: character '{character}' is not valid at position {at} in '{text}'.")
            }
            Fault::Syntax => format!("Syntax error at position {at} in '{text}'."),
            Fault::UnterminatedString => {
                format!("Unterminated string literal at position {at} in '{text}'.")
            }
            Fault::UnterminatedLiteral => format!("Unterminated literal at position {at} in '{text}'."),
            Fault::DigitExpected => format!("Digit expected at position {at} in '{text}'."),
            Fault::ExpressionExpected => format!("Expression expected at position {at} in '{text}'."),
            Fault::CloseParenOrOperatorExpected => {
                format!("')' or operator expected at position {at} in '{text}'.")
            }
            Fault::IdentifierExpected => format!("An identifier was expected at position {at}."),
            Fault::Literal { edm_type, literal } => {
                format!("Unrecognized '{edm_type}' literal '{literal}' at '{at}' in '{text}'.")
            }
            Fault::Input => return ErrorCode::InvalidInput.into(),
            Fault::QuerySyntax => "Bad Request - Error in query syntax.".to_owned(),
            Fault::NotImplemented => return ErrorCode::NotImplemented.into(),
        };
        ServiceError::with_message(ErrorCode::InvalidInput, message)
    }
}
