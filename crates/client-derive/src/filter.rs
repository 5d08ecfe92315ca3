//! `filter!`: text of the query language, parsed when the program is compiled.
//!
//! Each `{expression}` is replaced by a literal that no text can hold, the rest is parsed by the parser of the server,
//! and the tree is written as calls. A value therefore can only ever be a literal.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn3::{Error, Expr, LitStr, Result};
use tavola_model::{EdmValue, FilterNode, Operator};

/// Stands before the number of an expression. A noncharacter, which the text is refused for.
const MARK: char = '\u{FFFF}';

pub fn expand(text: &LitStr) -> Result<Tokens> {
    let (marked, expressions) = take_expressions(text)?;
    let wrong = |message: String| Error::new(text.span(), message);
    let filter = tavola_odata::parse_filter(&marked).map_err(|error| wrong(readable(&error.message)))?;
    let filter = filter.ok_or_else(|| wrong("the filter is empty".into()))?;
    let node_name = |index: usize| format_ident!("node_{index}");
    let mut statements = Vec::new();
    for (index, node) in filter.nodes().iter().enumerate() {
        let value = match node {
            FilterNode::Compare(comparison) => {
                let (property, operator) = (comparison.property.name(), operator_tokens(comparison.operator));
                let literal = literal_tokens(comparison.literal(), &expressions);
                quote!(::tavola_client::Filter::compare(#property, #operator, &#literal))
            }
            FilterNode::Constant(_) => return Err(wrong("a filter compares properties with values".into())),
            FilterNode::And(left, right) => {
                let (left, right) = (node_name(left.index()), node_name(right.index()));
                quote!(#left.and(#right))
            }
            FilterNode::Or(left, right) => {
                let (left, right) = (node_name(left.index()), node_name(right.index()));
                quote!(#left.or(#right))
            }
            FilterNode::Not(inner) => {
                let inner = node_name(inner.index());
                quote!(::core::ops::Not::not(#inner))
            }
        };
        let name = node_name(index);
        statements.push(quote!(let #name = #value;));
    }
    let root = node_name(filter.nodes().len() - 1);
    Ok(quote!({ #(#statements)* #root }))
}

/// The text with a mark for each expression, and the expressions.
fn take_expressions(text: &LitStr) -> Result<(String, Vec<Expr>)> {
    let value = text.value();
    let wrong = |message: &str| Error::new(text.span(), message);
    if value.contains(MARK) {
        return Err(wrong("the text holds a noncharacter"));
    }
    let (mut marked, mut expressions) = (String::new(), Vec::new());
    let mut quoted = false;
    let mut rest = value.as_str();
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        quoted ^= first == '\'';
        if first != '{' {
            marked.push(first);
            continue;
        }
        if quoted {
            return Err(wrong("write a value without quotes around it: `Name eq {name}`"));
        }
        let end = closing_brace(rest).ok_or_else(|| wrong("a `{` is not closed"))?;
        let expression = syn3::parse_str::<Expr>(&rest[..end])
            .map_err(|_| wrong("between braces stands an expression, as in `{age}`"))?;
        marked.push_str(&format!("'{MARK}{}'", expressions.len()));
        expressions.push(expression);
        rest = &rest[end + 1..];
    }
    Ok((marked, expressions))
}

fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    text.char_indices().find_map(|(at, character)| match character {
        '{' => {
            depth += 1;
            None
        }
        '}' if depth == 0 => Some(at),
        '}' => {
            depth -= 1;
            None
        }
        _ => None,
    })
}

/// The message of the parser, with braces for the marks.
fn readable(message: &str) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some(at) = rest.find(MARK) {
        out.push_str(rest[..at].trim_end_matches('\''));
        let after = &rest[at + MARK.len_utf8()..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        out.push_str(&format!("{{{}}}", &after[..digits]));
        rest = after[digits..].strip_prefix('\'').unwrap_or(&after[digits..]);
    }
    out + rest
}

fn operator_tokens(operator: Operator) -> Tokens {
    let name = match operator {
        Operator::Eq => "Eq",
        Operator::Ne => "Ne",
        Operator::Gt => "Gt",
        Operator::Ge => "Ge",
        Operator::Lt => "Lt",
        Operator::Le => "Le",
    };
    let name = format_ident!("{name}");
    quote!(::tavola_client::Operator::#name)
}

fn literal_tokens(literal: EdmValue<'_>, expressions: &[Expr]) -> Tokens {
    let edm = quote!(::tavola_client::EdmValue);
    match literal {
        EdmValue::String(text) => {
            let number = text.strip_prefix(MARK).and_then(|number| number.parse::<usize>().ok());
            match number.and_then(|number| expressions.get(number)) {
                Some(expression) => quote!(#edm::from(#expression)),
                None => quote!(#edm::from(#text)),
            }
        }
        EdmValue::Binary(bytes) => quote!(#edm::Binary(::std::vec![#(#bytes),*])),
        EdmValue::Boolean(flag) => quote!(#edm::Boolean(#flag)),
        EdmValue::DateTime(time) => {
            let ticks = time.ticks();
            quote!(#edm::DateTime(
                ::tavola_client::DateTime::from_ticks(#ticks).expect("checked when the program was compiled")
            ))
        }
        EdmValue::Double(number) => {
            let bits = number.to_bits();
            quote!(#edm::Double(f64::from_bits(#bits)))
        }
        EdmValue::Guid(guid) => {
            let bytes = guid.0;
            quote!(#edm::Guid(::tavola_client::Guid([#(#bytes),*])))
        }
        EdmValue::Int32(number) => quote!(#edm::Int32(#number)),
        EdmValue::Int64(number) => quote!(#edm::Int64(#number)),
    }
}
