//! Templates of keys: read once, refused if a key made of one could not be parsed back or would not sort.

use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn3::{Error, LitStr, Result};

use crate::attributes::{Field, is_named, strip_option};

/// A template in pieces.
pub struct Template<'a> {
    pub text: String,
    pub pieces: Vec<Piece<'a>>,
}

/// Text, or a field in a form.
pub enum Piece<'a> {
    Text(String),
    Part(&'a Field<'a>, Form),
}

/// How a field is written.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    Plain,
    Padded(usize),
    Descending,
    Escaped,
}

/// A u64 has at most so many digits.
const WIDTH_MAX: usize = 20;

impl<'a> Template<'a> {
    /// Reads a template.
    pub fn parse(text: &LitStr, fields: &'a [Field<'a>]) -> Result<Self> {
        let value = text.value();
        let wrong = |message: String| Error::new(text.span(), message);
        let mut pieces: Vec<Piece<'a>> = Vec::new();
        let mut rest = value.as_str();
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix('{') {
                let end = inside.find('}').ok_or_else(|| wrong("a `{` is not closed".into()))?;
                let (field, form) = parse_part(&inside[..end], fields).map_err(wrong)?;
                if let Some(Piece::Part(before, Form::Plain | Form::Escaped)) = pieces.last() {
                    return Err(wrong(format!(
                        "a separator is missing between `{}` and `{}`: the key could not be parsed back",
                        before.ident, field.ident
                    )));
                }
                pieces.push(Piece::Part(field, form));
                rest = &inside[end + 1..];
            } else {
                let end = rest.find('{').unwrap_or(rest.len());
                let literal = &rest[..end];
                check_literal(literal, pieces.last()).map_err(wrong)?;
                pieces.push(Piece::Text(literal.into()));
                rest = &rest[end..];
            }
        }
        Ok(Self { text: value, pieces })
    }

    /// The parts, in order.
    pub fn parts(&self) -> impl Iterator<Item = (&'a Field<'a>, Form)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Part(field, form) => Some((*field, *form)),
            Piece::Text(_) => None,
        })
    }

    pub fn has(&self, field: &Field<'_>) -> bool {
        self.parts().any(|(part, _)| part.ident == field.ident)
    }

    /// The text before the first part, if that part is descending.
    pub fn descending_prefix(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [Piece::Part(_, Form::Descending), ..] => Some(""),
            [Piece::Text(prefix), Piece::Part(_, Form::Descending), ..] => Some(prefix),
            _ => None,
        }
    }

    /// An expression that builds the key from references that `value` gives.
    pub fn build(&self, value: impl Fn(&Field<'_>) -> Tokens) -> Tokens {
        let statements = self.pieces.iter().enumerate().map(|(index, piece)| match piece {
            Piece::Text(text) => quote!(key.push_str(#text);),
            Piece::Part(field, form) => {
                let separator = match self.pieces.get(index + 1) {
                    Some(Piece::Text(text)) => quote!(::core::option::Option::Some(#text)),
                    _ => quote!(::core::option::Option::None),
                };
                let (value, form) = (value(field), form.tokens());
                quote!(::tavola_client::key::push_part(#value, #form, #separator, &mut key)?;)
            }
        });
        quote!({
            let mut key = ::std::string::String::new();
            #(#statements)*
            ::tavola_client::key::finish(key)?
        })
    }

    /// The `Template` constant.
    pub fn tokens(&self) -> Tokens {
        let text = &self.text;
        let pieces = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => quote!(::tavola_client::key::Piece::Text(#text)),
            Piece::Part(field, form) => {
                let (name, ty, form_tokens) = (field.ident.to_string(), field.ty, form.tokens());
                let width = match form {
                    Form::Padded(width) => quote!(::core::option::Option::Some(#width)),
                    Form::Descending => quote!(::core::option::Option::Some(
                        <#ty as ::tavola_client::key::KeyPart>::DESCENDING_WIDTH
                    )),
                    Form::Plain | Form::Escaped => quote!(::core::option::Option::None),
                };
                quote!(::tavola_client::key::Piece::Part { name: #name, form: #form_tokens, width: #width })
            }
        });
        quote!(::tavola_client::key::Template { text: #text, pieces: &[#(#pieces),*] })
    }

    /// Assertions that every type has its form: for types whose names the macro does not know.
    pub fn checks(&self) -> Tokens {
        let checks = self.parts().map(|(field, form)| {
            let (ty, form) = (field.ty, form.tokens());
            let message = format!("a key cannot hold `{}` in this form", field.ident);
            quote!(
                const _: () = assert!(<#ty as ::tavola_client::key::KeyPart>::KIND.has(#form), #message);
            )
        });
        quote!(#(#checks)*)
    }
}

impl Form {
    fn tokens(self) -> Tokens {
        match self {
            Self::Plain => quote!(::tavola_client::key::Form::Plain),
            Self::Padded(width) => quote!(::tavola_client::key::Form::Padded(#width)),
            Self::Descending => quote!(::tavola_client::key::Form::Descending),
            Self::Escaped => quote!(::tavola_client::key::Form::Escaped),
        }
    }
}

fn parse_part<'a>(text: &str, fields: &'a [Field<'a>]) -> std::result::Result<(&'a Field<'a>, Form), String> {
    let (name, form) = match text.split_once(':') {
        None => (text, Form::Plain),
        Some((name, "desc")) => (name, Form::Descending),
        Some((name, "esc")) => (name, Form::Escaped),
        Some((name, width)) => {
            let width = width.strip_prefix('0').and_then(|width| width.parse().ok());
            let width = width.filter(|width| (1..=WIDTH_MAX).contains(width));
            let width = width
                .ok_or_else(|| format!("`{text}` has no form of a part: use `:06`, `:desc` or `:esc`"))?;
            (name, Form::Padded(width))
        }
    };
    let field = fields.iter().find(|field| field.ident == name);
    let field = field.ok_or_else(|| format!("there is no field `{name}`"))?;
    if field.skip || field.json {
        return Err(format!("`{name}` is not a value that a key can hold"));
    }
    if field.encrypt {
        return Err(format!("`{name}` is encrypted: a key or an index would show it"));
    }
    let ty = strip_option(field.ty).unwrap_or(field.ty);
    if form == Form::Plain && is_named(ty, &["u8", "u16", "u32", "u64"]) {
        return Err(format!(
            "`{name}` is a number: give it a width, as in `{{{name}:010}}`, so that keys sort"
        ));
    }
    Ok((field, form))
}

fn check_literal(text: &str, before: Option<&Piece<'_>>) -> std::result::Result<(), String> {
    if text.contains('}') {
        return Err("a `}` closes nothing".into());
    }
    if text.contains(['/', '\\', '#', '?']) || text.chars().any(char::is_control) {
        return Err("a key cannot hold / \\ # ? or control characters".into());
    }
    let first = text.chars().next();
    if let Some(Piece::Part(field, Form::Escaped)) = before
        && first.is_some_and(|first| !first.is_ascii_punctuation() || first == '^')
    {
        return Err(format!(
            "the separator behind `{}` must begin with a punctuation mark other than `^`, which escaping keeps apart",
            field.ident
        ));
    }
    Ok(())
}

/// `&self.field`.
pub fn of_self(field: &Field<'_>) -> Tokens {
    let ident = field.ident;
    quote!(&self.#ident)
}

/// `&field`, of a parameter.
pub fn of_parameter(field: &Field<'_>) -> Tokens {
    let ident = parameter(field);
    quote!(&#ident)
}

/// The name of the parameter that stands for a field. Not the field's own: it could be a keyword.
pub fn parameter(field: &Field<'_>) -> proc_macro2::Ident {
    format_ident!("{}", field.ident)
}
