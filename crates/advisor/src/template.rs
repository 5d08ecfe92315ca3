//! Templates of keys: `{Department}`, `{LastName}_{RowKey}`, `{Age:03}`, `{Created:reverse}`, `{RowKey:mod8}`.
//!
//! A template is text with names of properties in braces. After a colon: `0N` pads a whole number to N digits, `endN` pads
//! the digits at the end of a text (and leaves a text without), `reverse` turns a time into ticks that count down (so the
//! newest sorts first), `day` and `hour` cut a time there, `modN` gives the number of one of N buckets, by a hash. The
//! advisor proposes keys as templates and what-if builds keys from them.

use std::fmt;

use tavola_model::DateTime;
use xxhash_rust::xxh3::xxh3_64;

/// Buckets at most.
const BUCKETS_MAX: u64 = 1_000;
/// Characters of a time that name its day, and its hour: `2026-11-15T18`.
const DAY_CHARS: usize = 10;
const HOUR_CHARS: usize = 13;
/// Digits at most.
const WIDTH_MAX: usize = 19;

/// A key with places for values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Value { property: String, form: Form },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Padded(usize),
    PaddedEnd(usize),
    Reverse,
    Day,
    Hour,
    Bucket(u64),
}

/// Why a template is none, or gives no key for an entity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It does not parse.
    #[error("the template {template} is not valid: {reason}")]
    Invalid {
        /// The template.
        template: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The entity has no such property.
    #[error("no property {0}")]
    Missing(String),
    /// The value cannot be put into the form asked for.
    #[error("{property} cannot be written in the form asked for")]
    Form {
        /// The property.
        property: String,
    },
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let invalid = |reason| TemplateError::Invalid { template: text.to_owned(), reason };
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            if open > 0 {
                pieces.push(Piece::Text(rest[..open].to_owned()));
            }
            let close = rest[open..].find('}').ok_or_else(|| invalid("a brace is not closed"))? + open;
            let inside = &rest[open + 1..close];
            let (property, form) = match inside.split_once(':') {
                Some((property, form)) => {
                    (property, Form::parse(form).ok_or_else(|| invalid("unknown form"))?)
                }
                None => (inside, Form::Plain),
            };
            if property.is_empty() {
                return Err(invalid("a name is missing between braces"));
            }
            pieces.push(Piece::Value { property: property.to_owned(), form });
            rest = &rest[close + 1..];
        }
        if rest.contains('}') {
            return Err(invalid("a brace is not opened"));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self { pieces })
    }

    /// The key of an entity whose values `value` gives.
    pub fn expand(&self, value: impl Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
        let mut key = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => key.push_str(text),
                Piece::Value { property, form } => {
                    let value = value(property).ok_or_else(|| TemplateError::Missing(property.clone()))?;
                    let written = form.write(&value);
                    key.push_str(&written.ok_or_else(|| TemplateError::Form { property: property.clone() })?);
                }
            }
        }
        Ok(key)
    }

    /// The start of every key whose entities have these values: up to the first value that `value` does not give. True
    /// with it if that is the whole key.
    pub fn expand_known(&self, value: impl Fn(&str) -> Option<String>) -> (String, bool) {
        let start = self.start(value);
        let is_whole = start.open.is_none();
        (start.text, is_whole)
    }

    /// The start of every key whose entities have these values, and the value where it ends.
    pub(crate) fn start(&self, value: impl Fn(&str) -> Option<String>) -> Start<'_> {
        let mut text = String::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value { property, form } => match value(property).and_then(|value| form.write(&value))
                {
                    Some(value) => text.push_str(&value),
                    None => {
                        let is_last = index + 1 == self.pieces.len();
                        return Start { text, open: Some(Open { property, form: *form, is_last }) };
                    }
                },
            }
        }
        Start { text, open: None }
    }

    /// All keys that entities with these values can have, if there are not more than `max`: a bucket that is not known is
    /// each of them.
    pub(crate) fn expand_all(
        &self,
        value: impl Fn(&str) -> Option<String>,
        max: usize,
    ) -> Option<Vec<String>> {
        let mut keys = vec![String::new()];
        for piece in &self.pieces {
            let endings = match piece {
                Piece::Text(text) => vec![text.clone()],
                Piece::Value { property, form } => match (value(property), form) {
                    (Some(value), form) => vec![form.write(&value)?],
                    (None, Form::Bucket(count)) => {
                        (0..*count).map(|bucket| bucket_text(bucket, *count)).collect()
                    }
                    (
                        None,
                        Form::Plain
                        | Form::Padded(_)
                        | Form::PaddedEnd(_)
                        | Form::Reverse
                        | Form::Day
                        | Form::Hour,
                    ) => return None,
                },
            };
            if keys.len() * endings.len() > max {
                return None;
            }
            keys = keys
                .iter()
                .flat_map(|key| endings.iter().map(move |ending| format!("{key}{ending}")))
                .collect();
        }
        Some(keys)
    }
}

/// How far a key is known.
pub(crate) struct Start<'a> {
    pub text: String,
    /// The first value that is not known.
    pub open: Option<Open<'a>>,
}

/// A value of a template that is not known.
pub(crate) struct Open<'a> {
    pub property: &'a str,
    form: Form,
    is_last: bool,
}

impl Open<'_> {
    /// Whether it is an old key whose numbers are padded: they sort as numbers here, and did not before.
    pub fn is_padded_key(&self) -> bool {
        matches!(self.form, Form::Padded(_) | Form::PaddedEnd(_))
            && matches!(self.property, "PartitionKey" | "RowKey")
    }

    /// Whether it is the value itself, in no other form.
    pub fn is_plain(&self) -> bool {
        self.form == Form::Plain
    }

    /// The value as the key would have it, if keys sort there as the values do; true with it if they sort backwards.
    pub fn sorted(&self, value: &str) -> Option<(String, bool)> {
        match self.form {
            Form::Padded(_) | Form::PaddedEnd(_) | Form::Day | Form::Hour => {
                self.form.write(value).map(|text| (text, false))
            }
            Form::Reverse => self.form.write(value).map(|text| (text, true)),
            // Behind a text of any length, what follows decides the order.
            Form::Plain if self.is_last => Some((value.to_owned(), false)),
            Form::Plain | Form::Bucket(_) => None,
        }
    }
}

impl Form {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "reverse" => return Some(Self::Reverse),
            "day" => return Some(Self::Day),
            "hour" => return Some(Self::Hour),
            _ => {}
        }
        if let Some(width) = text.strip_prefix("end") {
            return width.parse().ok().filter(|width| (1..=WIDTH_MAX).contains(width)).map(Self::PaddedEnd);
        }
        if let Some(count) = text.strip_prefix("mod") {
            return count.parse().ok().filter(|count| (1..=BUCKETS_MAX).contains(count)).map(Self::Bucket);
        }
        let width = text.strip_prefix('0')?.parse().ok()?;
        (1..=WIDTH_MAX).contains(&width).then_some(Self::Padded(width))
    }

    fn write(self, value: &str) -> Option<String> {
        match self {
            Self::Plain => Some(value.to_owned()),
            Self::Padded(width) => {
                let number: u64 = value.parse().ok()?;
                Some(format!("{number:0width$}"))
            }
            Self::PaddedEnd(width) => {
                let digits = value.len() - value.trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let (start, number) = value.split_at(value.len() - digits);
                Some(if digits == 0 { value.to_owned() } else { format!("{start}{number:0>width$}") })
            }
            Self::Day => Some(DateTime::parse(value)?.to_text_7_digits().chars().take(DAY_CHARS).collect()),
            Self::Hour => Some(DateTime::parse(value)?.to_text_7_digits().chars().take(HOUR_CHARS).collect()),
            Self::Reverse => {
                let time = DateTime::parse(value)?;
                Some(format!("{:019}", DateTime::MAX.ticks() - time.ticks()))
            }
            Self::Bucket(count) => Some(bucket_text(xxh3_64(value.as_bytes()) % count, count)),
        }
    }
}

fn bucket_text(bucket: u64, count: u64) -> String {
    let width = (count - 1).to_string().len();
    format!("{bucket:0width$}")
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => f.write_str(text)?,
                Piece::Value { property, form } => match form {
                    Form::Plain => write!(f, "{{{property}}}")?,
                    Form::Padded(width) => write!(f, "{{{property}:0{width}}}")?,
                    Form::PaddedEnd(width) => write!(f, "{{{property}:end{width}}}")?,
                    Form::Reverse => write!(f, "{{{property}:reverse}}")?,
                    Form::Day => write!(f, "{{{property}:day}}")?,
                    Form::Hour => write!(f, "{{{property}:hour}}")?,
                    Form::Bucket(count) => write!(f, "{{{property}:mod{count}}}")?,
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<String> {
        let value = match name {
            "LastName" => "Smith",
            "Age" => "42",
            "RowKey" => "0007",
            "Item" => "item-9",
            "Created" => "2026-11-15T18:00:00Z",
            _ => return None,
        };
        Some(value.to_owned())
    }

    fn check(template: &str, expected: &str) {
        let parsed = Template::parse(template).unwrap();
        assert_eq!(parsed.expand(value).unwrap(), expected);
        assert_eq!(parsed.to_string(), template);
    }

    #[test]
    fn values_are_put_into_their_places() {
        check("{LastName}_{RowKey}", "Smith_0007");
        check("age_{Age:05}", "age_00042");
        check("constant", "constant");
        check("{RowKey:mod1}", "0");
        check("{Created:reverse}", &reverse());
        check("{Created:day}", "2026-11-15");
        check("{Created:hour}", "2026-11-15T18");
        check("{Item:end8}", "item-00000009");
        check("{LastName:end8}", "Smith");
    }

    fn reverse() -> String {
        format!("{:019}", DateTime::MAX.ticks() - DateTime::parse("2026-11-15T18:00:00Z").unwrap().ticks())
    }

    #[test]
    fn the_newest_time_sorts_first() {
        let template = Template::parse("{T:reverse}").unwrap();
        let of = |time: &str| template.expand(|_| Some(time.to_owned())).unwrap();
        assert!(of("2026-11-16T00:00:00Z") < of("2026-11-15T00:00:00Z"));
    }

    #[test]
    fn what_is_known_gives_the_start_of_a_key() {
        let template = Template::parse("ln_{LastName}_{Unknown}").unwrap();
        assert_eq!(template.expand_known(value), ("ln_Smith_".to_owned(), false));
        assert_eq!(template.expand(value), Err(TemplateError::Missing("Unknown".to_owned())));
    }

    #[test]
    fn mistakes_are_refused() {
        for text in
            ["{", "{}", "}", "{A:}", "{A:x}", "{A:mod0}", "{A:0}", "{A:099}", "{A:end}", "{A:end0}", "a}b"]
        {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }
}
