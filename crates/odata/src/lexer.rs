//! Query text cut into tokens.
//!
//! The cuts are those of the WCF Data Services lexer, because its positions are part of recorded error texts:
//! a character no token begins with is reported where it stands, a token in the wrong place at the place
//! where reading stopped, behind it.

use crate::error::{Fault, ParseError};

/// A piece of query text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
    /// Byte offset of its first character.
    pub at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Identifier,
    /// `'text'` with its quotes.
    String,
    Integer,
    Int64,
    Double,
    /// A decimal literal; the service has no such type.
    Decimal,
    Boolean,
    DateTime,
    Guid,
    Binary,
    Null,
    OpenParen,
    CloseParen,
    Comma,
    Equal,
    /// `-`, `/`, `?`, `.`, `*`: legal in OData, without meaning here.
    Mark,
    End,
}

/// Reads tokens one after the other; `current` is the one last read.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    /// Where reading stopped, behind the current token.
    pub position: usize,
    pub current: Token<'a>,
}

impl<'a> Lexer<'a> {
    /// A lexer that has read the first token.
    pub fn new(text: &'a str) -> Result<Self, ParseError> {
        let none = Token { kind: TokenKind::End, text: "", at: 0 };
        let mut lexer = Self { text, position: 0, current: none };
        lexer.advance()?;
        Ok(lexer)
    }

    /// Reads the next token and gives the one before it.
    pub fn advance(&mut self) -> Result<Token<'a>, ParseError> {
        self.skip_while(char::is_whitespace);
        let at = self.position;
        let kind = self.read_kind()?;
        let token = Token { kind, text: &self.text[at..self.position], at };
        Ok(std::mem::replace(&mut self.current, token))
    }

    /// Whether an open parenthesis follows the current token.
    pub fn open_paren_follows(&self) -> bool {
        self.text[self.position..].trim_start().starts_with('(')
    }

    /// An error at the place where reading stopped.
    pub fn syntax_error(&self) -> ParseError {
        ParseError { at: self.position, fault: Fault::Syntax }
    }

    fn read_kind(&mut self) -> Result<TokenKind, ParseError> {
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        let kind = match first {
            '(' => TokenKind::OpenParen,
            ')' => TokenKind::CloseParen,
            ',' => TokenKind::Comma,
            '=' => TokenKind::Equal,
            '-' => return self.read_minus(),
            '/' | '?' | '.' | '*' => TokenKind::Mark,
            '\'' => return self.read_string(),
            _ if first.is_alphabetic() || first == '_' => return self.read_word(),
            _ if first.is_ascii_digit() => return self.read_number(),
            _ => return Err(self.fault(Fault::Character(first))),
        };
        self.bump();
        Ok(kind)
    }

    fn read_minus(&mut self) -> Result<TokenKind, ParseError> {
        self.bump();
        let start = self.position;
        if self.peek().is_some_and(|next| next.is_ascii_digit()) {
            let kind = self.read_number()?;
            if kind != TokenKind::Binary {
                return Ok(kind);
            }
        } else if self.peek() == Some('I') {
            self.skip_while(is_word_part);
            if is_infinity(&self.text[start..self.position]) {
                return Ok(TokenKind::Double);
            }
        }
        self.position = start;
        Ok(TokenKind::Mark)
    }

    fn read_string(&mut self) -> Result<TokenKind, ParseError> {
        loop {
            self.bump();
            self.skip_while(|c| c != '\'');
            if self.peek().is_none() {
                return Err(self.fault(Fault::UnterminatedString));
            }
            self.bump();
            if self.peek() != Some('\'') {
                return Ok(TokenKind::String);
            }
        }
    }

    /// An identifier, a keyword, or a literal with a type before its quote.
    fn read_word(&mut self) -> Result<TokenKind, ParseError> {
        let start = self.position;
        self.skip_while(is_word_part);
        let word = &self.text[start..self.position];
        if self.peek() == Some('\'') {
            let kind = match word.to_ascii_lowercase().as_str() {
                "datetime" => Some(TokenKind::DateTime),
                "guid" => Some(TokenKind::Guid),
                "x" | "binary" => Some(TokenKind::Binary),
                _ => None,
            };
            if let Some(kind) = kind {
                self.bump();
                self.skip_while(|c| c != '\'');
                if self.peek().is_none() {
                    return Err(self.fault(Fault::UnterminatedLiteral));
                }
                self.bump();
                return Ok(kind);
            }
        }
        Ok(match word {
            "true" | "false" => TokenKind::Boolean,
            "null" => TokenKind::Null,
            "NaN" | "NaNf" => TokenKind::Double,
            _ if is_infinity(word) => TokenKind::Double,
            _ => TokenKind::Identifier,
        })
    }

    fn read_number(&mut self) -> Result<TokenKind, ParseError> {
        let mut kind = TokenKind::Integer;
        let first = self.bump();
        if first == Some('0') && matches!(self.peek(), Some('x' | 'X')) {
            self.bump();
            self.skip_while(|c| c.is_ascii_hexdigit());
            return Ok(TokenKind::Binary);
        }
        self.skip_while(|c| c.is_ascii_digit());
        if self.peek() == Some('.') {
            kind = TokenKind::Double;
            self.bump();
            self.expect_digits()?;
        }
        if matches!(self.peek(), Some('e' | 'E')) {
            kind = TokenKind::Double;
            self.bump();
            if matches!(self.peek(), Some('+' | '-')) {
                self.bump();
            }
            self.expect_digits()?;
        }
        kind = match self.peek() {
            Some('m' | 'M') => TokenKind::Decimal,
            Some('d' | 'D' | 'f' | 'F') => TokenKind::Double,
            Some('l' | 'L') => TokenKind::Int64,
            _ => return Ok(kind),
        };
        self.bump();
        Ok(kind)
    }

    fn expect_digits(&mut self) -> Result<(), ParseError> {
        if !self.peek().is_some_and(|c| c.is_ascii_digit()) {
            return Err(self.fault(Fault::DigitExpected));
        }
        self.skip_while(|c| c.is_ascii_digit());
        Ok(())
    }

    fn peek(&self) -> Option<char> {
        self.text[self.position..].chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.position += next.len_utf8();
        Some(next)
    }

    fn skip_while(&mut self, accepted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&accepted) {
            self.bump();
        }
    }

    fn fault(&self, fault: Fault) -> ParseError {
        ParseError { at: self.position, fault }
    }
}

/// Letters, digits, `_`, and what other scripts put in identifiers, as property names allow.
pub(crate) fn is_word_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_' || (!character.is_ascii() && !character.is_whitespace())
}

fn is_infinity(word: &str) -> bool {
    matches!(word, "INF" | "INFf" | "Infinity")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let read = || {
            let mut lexer = Lexer::new(text)?;
            let mut shown = Vec::new();
            while lexer.current.kind != TokenKind::End {
                let token = lexer.advance()?;
                shown.push(format!("{:?} {}", token.kind, token.text));
            }
            Ok::<_, ParseError>(shown.join(", "))
        };
        let shown = read().unwrap_or_else(|error| format!("{:?} at {}", error.fault, error.at));
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn every_literal_form_is_one_token() {
        check("'it''s'", "String 'it''s'");
        check(
            "-1 5L 5l 1.5 1e5 -1.5E-3 2d",
            "Integer -1, Int64 5L, Int64 5l, Double 1.5, Double 1e5, Double -1.5E-3, Double 2d",
        );
        check(
            "NaN INF -INF Infinity -Infinity",
            "Double NaN, Double INF, Double -INF, Double Infinity, Double -Infinity",
        );
        check(
            "datetime'x' GUID'y' X'01' x'1' binary'02'",
            "DateTime datetime'x', Guid GUID'y', Binary X'01', Binary x'1', Binary binary'02'",
        );
        check("true null Flag", "Boolean true, Null null, Identifier Flag");
        check("1.5m -I 0xfg", "Decimal 1.5m, Mark -, Identifier I, Binary 0xf, Identifier g");
    }

    #[test]
    fn unfinished_tokens_are_reported_where_reading_stopped() {
        check("a eq 'b", "UnterminatedString at 7");
        check("a eq guid'b", "UnterminatedLiteral at 11");
        check("1.x", "DigitExpected at 2");
        check("1e", "DigitExpected at 2");
        check("a < b", "Character('<') at 2");
    }
}
