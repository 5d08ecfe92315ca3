//! Key predicates: what stands between the parentheses of `table(...)`.
//!
//! The reading follows WCF Data Services, whose quirks are recorded: an un-doubled quote ends the key, what
//! follows is read as the next name, and the error is told there. A comma between keys is not required.

use std::borrow::Cow;

use tavola_model::ServiceError;

use crate::error::{Fault, ParseError};
use crate::lexer::{Lexer, TokenKind};
use crate::literal::unquote;

/// The keys that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPredicate<'a> {
    /// `()`.
    None,
    /// `('name')`.
    Single(Cow<'a, str>),
    /// `(PartitionKey='p')`.
    Partition(Cow<'a, str>),
    /// `(PartitionKey='p',RowKey='r')`, in any order.
    Entity {
        /// The PartitionKey.
        partition: Cow<'a, str>,
        /// The RowKey.
        row: Cow<'a, str>,
    },
    /// So many keys, which is not how many anything has.
    Other(usize),
}

/// Reads the percent-decoded text between the parentheses.
pub fn parse_key_predicate(text: &str) -> Result<KeyPredicate<'_>, ServiceError> {
    parse(text).map_err(|error| error.into_service_error(text))
}

fn parse(text: &str) -> Result<KeyPredicate<'_>, ParseError> {
    let mut lexer = Lexer::new(text)?;
    let mut keys = Keys::default();
    while lexer.current.kind != TokenKind::End {
        let token = lexer.current;
        match token.kind {
            TokenKind::Identifier if keys.positional.is_empty() => {
                lexer.advance()?;
                if lexer.current.kind != TokenKind::Equal {
                    return Err(query_syntax(token.at));
                }
                lexer.advance()?;
                let value = lexer.current;
                if value.kind != TokenKind::String || !keys.name(token.text, unquote(value.text)) {
                    return Err(query_syntax(value.at));
                }
            }
            TokenKind::String if keys.named == 0 => keys.positional.push(unquote(token.text)),
            _ => return Err(query_syntax(token.at)),
        }
        lexer.advance()?;
        if lexer.current.kind == TokenKind::Comma {
            let comma = lexer.advance()?;
            if lexer.current.kind == TokenKind::End {
                return Err(query_syntax(comma.at));
            }
        }
    }
    Ok(keys.into_predicate())
}

#[derive(Default)]
struct Keys<'a> {
    positional: Vec<Cow<'a, str>>,
    named: usize,
    partition: Option<Cow<'a, str>>,
    row: Option<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    /// Takes a named key; `false` if the name is given twice. Other names only count.
    fn name(&mut self, name: &str, value: Cow<'a, str>) -> bool {
        self.named += 1;
        match name {
            "PartitionKey" => self.partition.replace(value).is_none(),
            "RowKey" => self.row.replace(value).is_none(),
            _ => true,
        }
    }

    fn into_predicate(mut self) -> KeyPredicate<'a> {
        match (self.named, self.partition, self.row) {
            (1, Some(partition), None) => KeyPredicate::Partition(partition),
            (2, Some(partition), Some(row)) => KeyPredicate::Entity { partition, row },
            (0, _, _) => match self.positional.len() {
                0 => KeyPredicate::None,
                1 => KeyPredicate::Single(self.positional.remove(0)),
                more => KeyPredicate::Other(more),
            },
            (named, _, _) => KeyPredicate::Other(named),
        }
    }
}

fn query_syntax(at: usize) -> ParseError {
    ParseError { at, fault: Fault::QuerySyntax }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Result<KeyPredicate<'_>, &str>) {
        let parsed = parse_key_predicate(text).map_err(|error| error.message.into_owned());
        assert_eq!(parsed, expected.map_err(str::to_owned), "{text}");
    }

    fn entity<'a>(partition: &'a str, row: &'a str) -> Result<KeyPredicate<'a>, &'static str> {
        Ok(KeyPredicate::Entity { partition: partition.into(), row: row.into() })
    }

    #[test]
    fn both_keys_may_come_in_any_order() {
        check("PartitionKey='p',RowKey='r'", entity("p", "r"));
        check("RowKey='r', PartitionKey = 'p'", entity("p", "r"));
        check("PartitionKey='',RowKey='it''s'", entity("", "it's"));
    }

    #[test]
    fn a_partition_a_name_or_nothing_may_stand_alone() {
        check("PartitionKey='p'", Ok(KeyPredicate::Partition("p".into())));
        check("'mytable'", Ok(KeyPredicate::Single("mytable".into())));
        check("", Ok(KeyPredicate::None));
        check(" ", Ok(KeyPredicate::None));
    }

    #[test]
    fn other_numbers_of_keys_are_counted() {
        check("RowKey='r'", Ok(KeyPredicate::Other(1)));
        check("'a','b'", Ok(KeyPredicate::Other(2)));
        check("PartitionKey='p',RowKey='r',X='x'", Ok(KeyPredicate::Other(3)));
    }

    #[test]
    fn an_undoubled_quote_is_told_as_recorded() {
        check(
            r#"PartitionKey='A'aaa"_bbbb2',RowKey='"A'aaa"_bbbb2'"#,
            Err(
                r#"Syntax error: character '"' is not valid at position 19 in 'PartitionKey='A'aaa"_bbbb2',RowKey='"A'aaa"_bbbb2''."#,
            ),
        );
        check("'{'additional_properties': {}", Err("Bad Request - Error in query syntax."));
    }

    #[test]
    fn text_that_names_no_keys_is_a_query_syntax_error() {
        let twice = "PartitionKey='p',PartitionKey='q'";
        for text in ["PartitionKey", "PartitionKey=5", "5", "=", "'a',", ",", "'a',x='b'", "x='b','a'", twice]
        {
            check(text, Err("Bad Request - Error in query syntax."));
        }
    }

    proptest! {
        #[test]
        fn any_keys_read_back_once_their_quotes_are_doubled(partition in "\\PC{0,8}|['a]{0,6}", row in "\\PC{0,8}|['a]{0,6}") {
            let text = format!("PartitionKey='{}',RowKey='{}'", partition.replace('\'', "''"), row.replace('\'', "''"));
            prop_assert_eq!(parse_key_predicate(&text).unwrap(), entity(&partition, &row).unwrap());
        }

        #[test]
        fn arbitrary_text_never_panics(text in "([a-zPR='(), ]|\\PC){0,24}") {
            let _ = parse_key_predicate(&text);
            let _ = crate::parse_select(&text);
        }
    }
}
