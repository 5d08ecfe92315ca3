//! Literals of the query language, both ways.

use std::borrow::Cow;

use tavola_model::{DateTime, EdmType, EdmValue, Guid};

use crate::error::{Fault, ParseError};
use crate::lexer::{Token, TokenKind};

/// A literal that owns its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Bytes(Vec<u8>),
    Fixed(EdmValue<'static>),
    Null,
}

impl Literal {
    /// The value, unless the literal is `null`.
    pub fn value(&self) -> Option<EdmValue<'_>> {
        match self {
            Literal::Text(text) => Some(EdmValue::String(text)),
            Literal::Bytes(bytes) => Some(EdmValue::Binary(bytes)),
            Literal::Fixed(value) => Some(*value),
            Literal::Null => None,
        }
    }
}

/// The literal a token writes; `None` if the token is no literal.
pub(crate) fn parse_literal(token: Token<'_>) -> Result<Option<Literal>, ParseError> {
    let text = token.text;
    let (edm_type, literal) = match token.kind {
        TokenKind::String => (EdmType::String, Some(Literal::Text(unquote(text).into_owned()))),
        TokenKind::Integer => (EdmType::Int32, fixed(text.parse().ok().map(EdmValue::Int32))),
        TokenKind::Int64 => {
            let digits = text.trim_end_matches(['l', 'L']);
            (EdmType::Int64, fixed(digits.parse().ok().map(EdmValue::Int64)))
        }
        TokenKind::Double => (EdmType::Double, fixed(parse_double(text).map(EdmValue::Double))),
        TokenKind::Boolean => (EdmType::Boolean, fixed(Some(EdmValue::Boolean(text == "true")))),
        TokenKind::DateTime => {
            (EdmType::DateTime, fixed(DateTime::parse(inside_quotes(text)).map(EdmValue::DateTime)))
        }
        TokenKind::Guid => (EdmType::Guid, fixed(Guid::parse(inside_quotes(text)).map(EdmValue::Guid))),
        TokenKind::Binary => (EdmType::Binary, parse_hex(text).map(Literal::Bytes)),
        TokenKind::Null => return Ok(Some(Literal::Null)),
        TokenKind::Decimal => return Err(ParseError { at: token.at, fault: Fault::Input }),
        TokenKind::Identifier
        | TokenKind::OpenParen
        | TokenKind::CloseParen
        | TokenKind::Comma
        | TokenKind::Equal
        | TokenKind::Mark
        | TokenKind::End => return Ok(None),
    };
    let unrecognized = || ParseError {
        at: token.at,
        fault: Fault::Literal { edm_type: edm_type.as_str(), literal: text.to_owned() },
    };
    literal.map(Some).ok_or_else(unrecognized)
}

/// Appends the text that `parse_literal` reads back as this value.
pub(crate) fn write_literal(value: EdmValue<'_>, out: &mut String) {
    match value {
        EdmValue::String(text) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        EdmValue::Binary(bytes) => {
            out.push_str("X'");
            bytes.iter().for_each(|byte| out.push_str(&format!("{byte:02X}")));
            out.push('\'');
        }
        EdmValue::Boolean(flag) => out.push_str(if flag { "true" } else { "false" }),
        EdmValue::DateTime(time) => out.push_str(&format!("datetime'{time}'")),
        EdmValue::Guid(guid) => out.push_str(&format!("guid'{guid}'")),
        EdmValue::Int32(number) => out.push_str(&number.to_string()),
        EdmValue::Int64(number) => out.push_str(&format!("{number}L")),
        EdmValue::Double(number) if number.is_nan() => out.push_str("NaN"),
        EdmValue::Double(f64::INFINITY) => out.push_str("INF"),
        EdmValue::Double(f64::NEG_INFINITY) => out.push_str("-INF"),
        // Debug keeps the point or exponent that makes the text a Double.
        EdmValue::Double(number) => out.push_str(&format!("{number:?}")),
    }
}

/// The text of a string token: quotes off, doubled quotes single.
pub(crate) fn unquote(token_text: &str) -> Cow<'_, str> {
    let inside = inside_quotes(token_text);
    if inside.contains("''") { inside.replace("''", "'").into() } else { inside.into() }
}

fn fixed(value: Option<EdmValue<'static>>) -> Option<Literal> {
    value.map(Literal::Fixed)
}

/// What stands between the first quote and the last.
fn inside_quotes(text: &str) -> &str {
    match (text.find('\''), text.rfind('\'')) {
        (Some(first), Some(last)) if first < last => &text[first + 1..last],
        _ => text,
    }
}

fn parse_double(text: &str) -> Option<f64> {
    match text {
        "NaN" | "NaNf" => return Some(f64::NAN),
        "INF" | "INFf" | "Infinity" => return Some(f64::INFINITY),
        "-INF" | "-INFf" | "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    // Text beyond the range of a Double reads as infinity, which was not what the client wrote.
    text.trim_end_matches(['d', 'D', 'f', 'F']).parse().ok().filter(|number: &f64| number.is_finite())
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.find('\'').map(|_| inside_quotes(text))?;
    if !digits.len().is_multiple_of(2) || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..digits.len()).step_by(2).map(|index| u8::from_str_radix(&digits[index..index + 2], 16).ok()).collect()
}
