//! Keys, and the templates that build compound keys and take them apart.
//!
//! A template such as `empid_{id:06}_{year:04}` is text and parts. Every part has a fixed width or ends at a separator,
//! so a key parses back into exactly the values it was built from; a value for which that would not hold is refused
//! before anything is sent. Parts of fixed width sort as their values do.
//!
//! | form | for | written as |
//! |---|---|---|
//! | `{name}` | text, a guid, a time | itself; a time as 19 digits of ticks |
//! | `{id:06}` | a number | so many digits, with leading zeros |
//! | `{at:desc}` | a time or a number | the digits of the distance to the largest value: newest first |
//! | `{path:esc}` | text | forbidden characters, `^` and the separator as `^2F`; order is kept among texts without them |

use std::fmt::Write;

use tavola_model::Key;

use crate::edm::{DateTime, Edm, EdmRef, Guid, Property, Unfit};
use crate::error::{KeyError, MapError};

/// PartitionKey and RowKey of an entity.
///
/// ```
/// use tavola_client::EntityKey;
/// let key = EntityKey::from(("Sales", "empid_000212"));
/// assert_eq!(key.partition, "Sales");
/// ```
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
///
/// ```
/// use tavola_client::EntityKey;
/// let key: EntityKey = ("Sales", "empid_000123").into();
/// assert_eq!((key.partition.as_str(), key.row.as_str()), ("Sales", "empid_000123"));
/// ```
pub struct EntityKey {
    /// The PartitionKey.
    pub partition: String,
    /// The RowKey.
    pub row: String,
}

impl EntityKey {
    /// The key as the service takes it: no forbidden character, at most 512 UTF-16 units each.
    ///
    /// ```
    /// use tavola_client::{EntityKey, KeyError};
    /// let slash = EntityKey::from(("Sales", "a/b")).checked();
    /// assert_eq!(slash, Err(KeyError::Forbidden('/')));
    /// ```
    pub fn checked(&self) -> Result<tavola_model::EntityKey, KeyError> {
        Ok(tavola_model::EntityKey { partition: check(&self.partition)?, row: check(&self.row)? })
    }
}

impl<P: Into<String>, R: Into<String>> From<(P, R)> for EntityKey {
    fn from((partition, row): (P, R)) -> Self {
        Self { partition: partition.into(), row: row.into() }
    }
}

impl From<&EntityKey> for EntityKey {
    fn from(key: &EntityKey) -> Self {
        key.clone()
    }
}

impl From<&tavola_model::EntityKey> for EntityKey {
    fn from(key: &tavola_model::EntityKey) -> Self {
        Self { partition: key.partition.as_str().into(), row: key.row.as_str().into() }
    }
}

fn check(text: &str) -> Result<Key, KeyError> {
    if let Some(character) = text.chars().find(|character| is_forbidden(*character)) {
        return Err(KeyError::Forbidden(character));
    }
    Key::parse(text).map_err(|_| KeyError::TooLong)
}

/// <https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#characters-disallowed-in-key-fields>
fn is_forbidden(character: char) -> bool {
    matches!(character, '/' | '\\' | '#' | '?') || character.is_control()
}

/// How a part is written into a key.
///
/// ```
/// use tavola_client::key::{Form, KeyPart};
/// let mut key = String::new();
/// 7u32.write_part(Form::Padded(6), &mut key).unwrap();
/// assert_eq!(key, "000007");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{name}`.
    Plain,
    /// `{id:06}`: this many digits.
    Padded(usize),
    /// `{at:desc}`.
    Descending,
    /// `{path:esc}`.
    Escaped,
}

/// The forms that a type has in keys; the macro refuses the others.
///
/// ```
/// use tavola_client::key::{KeyPart, PartKind};
/// assert_eq!(<u32 as KeyPart>::KIND, PartKind::Number);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Plain and escaped.
    Text,
    /// Plain: a width of its own.
    Fixed,
    /// Plain, of a width of its own, and descending.
    Time,
    /// Padded and descending.
    Number,
}

impl PartKind {
    /// Whether a part of this kind can be written in a form. A number without a width would not sort.
    ///
    /// ```
    /// use tavola_client::key::{Form, PartKind};
    /// assert!(PartKind::Number.has(Form::Padded(6)) && !PartKind::Number.has(Form::Plain));
    /// ```
    pub const fn has(self, form: Form) -> bool {
        match form {
            Form::Plain => !matches!(self, Self::Number),
            Form::Padded(_) => matches!(self, Self::Number),
            Form::Descending => matches!(self, Self::Number | Self::Time),
            Form::Escaped => matches!(self, Self::Text),
        }
    }
}

/// A type that can be a part of a key.
///
/// In every form of fixed width, keys must sort as values do, and text must read back as the value.
///
/// ```
/// use tavola_client::key::{Form, KeyPart};
/// assert_eq!(u32::parse_part("000212", Form::Padded(6)), Some(212));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a key",
    label = "does not sort as text",
    note = "use String, u8, u16, u32, u64, DateTime or Guid; a signed number or a double does not sort as its text does"
)]
pub trait KeyPart: Sized {
    /// Which forms it has.
    const KIND: PartKind;
    /// Characters of its descending form.
    const DESCENDING_WIDTH: usize = 0;

    /// Appends the part in one of its forms, [`Form::Escaped`] apart, which is made of the plain one.
    fn write_part(&self, form: Form, out: &mut String) -> Result<(), KeyError>;

    /// Reads the text that `write_part` wrote.
    fn parse_part(text: &str, form: Form) -> Option<Self>;

    /// The part as a property, for copies under other keys; an optional part that is not there gives none.
    fn part_to_edm(&self) -> Option<Edm<'_>>;

    /// Reads the property that `part_to_edm` made.
    fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit>;
}

impl KeyPart for String {
    const KIND: PartKind = PartKind::Text;
    fn write_part(&self, _: Form, out: &mut String) -> Result<(), KeyError> {
        out.push_str(self);
        Ok(())
    }
    fn parse_part(text: &str, _: Form) -> Option<Self> {
        Some(text.into())
    }
    fn part_to_edm(&self) -> Option<Edm<'_>> {
        self.to_edm()
    }
    fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        Self::from_edm(value)
    }
}

impl KeyPart for Guid {
    const KIND: PartKind = PartKind::Fixed;
    fn write_part(&self, _: Form, out: &mut String) -> Result<(), KeyError> {
        write!(out, "{self}").expect("writing to a string does not fail");
        Ok(())
    }
    fn parse_part(text: &str, _: Form) -> Option<Self> {
        Self::parse(text).filter(|guid| guid.to_string() == text)
    }
    fn part_to_edm(&self) -> Option<Edm<'_>> {
        self.to_edm()
    }
    fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        Self::from_edm(value)
    }
}

/// Digits of the largest time.
const TIME_WIDTH: usize = 19;

impl KeyPart for DateTime {
    const KIND: PartKind = PartKind::Time;
    const DESCENDING_WIDTH: usize = TIME_WIDTH;
    fn write_part(&self, form: Form, out: &mut String) -> Result<(), KeyError> {
        let ticks = match form {
            Form::Descending => Self::MAX.ticks() - self.ticks(),
            _ => self.ticks(),
        };
        write_digits(ticks, TIME_WIDTH, out)
    }
    fn parse_part(text: &str, form: Form) -> Option<Self> {
        let ticks = parse_digits(text, TIME_WIDTH)?;
        Self::from_ticks(match form {
            Form::Descending => Self::MAX.ticks().checked_sub(ticks)?,
            _ => ticks,
        })
    }
    fn part_to_edm(&self) -> Option<Edm<'_>> {
        self.to_edm()
    }
    fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        Self::from_edm(value)
    }
}

fn write_digits(number: u64, width: usize, out: &mut String) -> Result<(), KeyError> {
    let start = out.len();
    write!(out, "{number:0width$}").expect("writing to a string does not fail");
    if out.len() - start > width { Err(KeyError::Width(width)) } else { Ok(()) }
}

fn parse_digits(text: &str, width: usize) -> Option<u64> {
    let digits = text.len() == width && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

macro_rules! numbers {
    ($($type:ty, $digits:literal, $to_edm:expr, $from_edm:expr;)*) => {$(
        impl KeyPart for $type {
            const KIND: PartKind = PartKind::Number;
            const DESCENDING_WIDTH: usize = $digits;
            fn write_part(&self, form: Form, out: &mut String) -> Result<(), KeyError> {
                match form {
                    Form::Descending => write_digits(u64::from(Self::MAX - self), $digits, out),
                    Form::Padded(width) => write_digits(u64::from(*self), width, out),
                    // The macro refuses the other forms of a number.
                    Form::Plain | Form::Escaped => Err(KeyError::Width(0)),
                }
            }
            fn parse_part(text: &str, form: Form) -> Option<Self> {
                match form {
                    Form::Descending => Self::MAX.checked_sub(Self::try_from(parse_digits(text, $digits)?).ok()?),
                    Form::Padded(width) => Self::try_from(parse_digits(text, width)?).ok(),
                    Form::Plain | Form::Escaped => None,
                }
            }
            fn part_to_edm(&self) -> Option<Edm<'_>> {
                let convert: fn(&Self) -> Option<Edm<'_>> = $to_edm;
                convert(self)
            }
            fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
                let convert: fn(EdmRef<'_>) -> Result<Self, Unfit> = $from_edm;
                convert(value)
            }
        }
    )*};
}
numbers! {
    u8, 3, Property::to_edm, Property::from_edm;
    u16, 5, Property::to_edm, Property::from_edm;
    u32, 10, Property::to_edm, Property::from_edm;
    u64, 20, |number| Some(Edm::Text(format!("{number:020}"))), u64_from_text;
}

/// Does not fit an Int64, so copies keep it as text that sorts.
fn u64_from_text(value: EdmRef<'_>) -> Result<u64, Unfit> {
    match value {
        EdmRef::String(text) => parse_digits(text, 20).ok_or_else(|| Unfit::Value("not 20 digits".into())),
        other => Err(Unfit::Type(other.edm_type())),
    }
}

/// A part that is there for some entities only: of sparse indexes, never of the entity's own key.
impl<T: KeyPart> KeyPart for Option<T> {
    const KIND: PartKind = T::KIND;
    const DESCENDING_WIDTH: usize = T::DESCENDING_WIDTH;
    fn write_part(&self, form: Form, out: &mut String) -> Result<(), KeyError> {
        self.as_ref().map_or(Ok(()), |part| part.write_part(form, out))
    }
    fn parse_part(text: &str, form: Form) -> Option<Self> {
        T::parse_part(text, form).map(Some)
    }
    fn part_to_edm(&self) -> Option<Edm<'_>> {
        self.as_ref().and_then(T::part_to_edm)
    }
    fn part_from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        T::part_from_edm(value).map(Some)
    }
}

/// One piece of a template.
///
/// ```
/// use tavola_client::key::Piece;
/// assert_ne!(Piece::Text("a"), Piece::Text("b"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text that every key has here.
    Text(&'static str),
    /// A part.
    Part {
        /// The field.
        name: &'static str,
        /// How it is written.
        form: Form,
        /// Characters of the form, if it has a fixed number.
        width: Option<usize>,
    },
}

/// A template in pieces. The macro has checked that keys made of it can be parsed back.
///
/// ```
/// use tavola_client::key::{Piece, Template};
/// assert!(Template { text: "Department", pieces: &[Piece::Text("Department")] }.fits("Department"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// As it stands in the attribute.
    pub text: &'static str,
    /// The same, in pieces.
    pub pieces: &'static [Piece],
}

impl Template {
    /// Reads one part of a key.
    ///
    /// ```
    /// use tavola_client::key::{Form, Piece, Template};
    /// const TEMPLATE: Template = Template {
    ///     text: "empid_{id:06}",
    ///     pieces: &[Piece::Text("empid_"), Piece::Part { name: "id", form: Form::Padded(6), width: Some(6) }],
    /// };
    /// assert_eq!(TEMPLATE.parse::<u32>("empid_000212", "id").unwrap(), 212);
    /// assert!(TEMPLATE.parse::<u32>("empid_212", "id").is_err());
    /// ```
    pub fn parse<T: KeyPart>(&self, key: &str, name: &str) -> Result<T, MapError> {
        self.find(key, name).ok_or_else(|| MapError::Key { template: self.text, key: key.into() })
    }

    /// Whether a key has the shape of the template.
    ///
    /// ```
    /// use tavola_client::key::{Piece, Template};
    /// let fixed = Template { text: "Department", pieces: &[Piece::Text("Department")] };
    /// assert!(fixed.fits("Department") && !fixed.fits("empid_000001"));
    /// ```
    pub fn fits(&self, key: &str) -> bool {
        self.walk(key, |_, _, _| ()).is_some()
    }

    fn find<T: KeyPart>(&self, key: &str, name: &str) -> Option<T> {
        let mut found = None;
        self.walk(key, |part, text, form| {
            if part == name {
                found = match form {
                    Form::Escaped => unescape(text).and_then(|text| T::parse_part(&text, form)),
                    _ => T::parse_part(text, form),
                };
            }
        })?;
        found
    }

    /// Shows every part with its text; `None` if the key has another shape.
    fn walk<'k>(&self, key: &'k str, mut visit: impl FnMut(&'static str, &'k str, Form)) -> Option<()> {
        let mut rest = key;
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Text(text) => rest = rest.strip_prefix(text)?,
                Piece::Part { name, form, width } => {
                    let end = match (width, self.pieces.get(index + 1)) {
                        (Some(width), _) => *width,
                        (None, Some(Piece::Text(separator))) => rest.find(separator)?,
                        (None, _) => rest.len(),
                    };
                    visit(name, rest.get(..end)?, *form);
                    rest = &rest[end..];
                }
            }
        }
        rest.is_empty().then_some(())
    }
}

/// Appends one part of a key and checks that the separator behind it still ends it. For the derive macro.
#[doc(hidden)]
pub fn push_part<T: KeyPart>(
    value: &T,
    form: Form,
    separator: Option<&'static str>,
    out: &mut String,
) -> Result<(), KeyError> {
    let start = out.len();
    value.write_part(form, out)?;
    if form == Form::Escaped {
        let escaped = escape(&out[start..], separator);
        out.truncate(start);
        out.push_str(&escaped);
    }
    if let Some(character) = out[start..].chars().find(|character| is_forbidden(*character)) {
        return Err(KeyError::Forbidden(character));
    }
    if let (Form::Plain, Some(separator)) = (form, separator) {
        let part_len = out.len() - start;
        // The separator may also begin inside the part and end in its own first occurrence: "a_" before "__".
        out.push_str(separator);
        let found = out[start..].find(separator);
        out.truncate(start + part_len);
        if found != Some(part_len) {
            return Err(KeyError::Separator { part: out[start..].into(), separator });
        }
    }
    Ok(())
}

/// Takes a finished key if it is short enough. For the derive macro.
#[doc(hidden)]
pub fn finish(key: String) -> Result<String, KeyError> {
    if key.len() > tavola_model::KEY_UNITS_MAX && key.encode_utf16().count() > tavola_model::KEY_UNITS_MAX {
        return Err(KeyError::TooLong);
    }
    Ok(key)
}

/// Writes what a key cannot hold, the caret and the first character of the separator as `^` and two hex digits. Every
/// such character is below U+00A0. The macro refuses a separator that begins with a letter, a digit or a caret.
fn escape(text: &str, separator: Option<&str>) -> String {
    let ending = separator.and_then(|separator| separator.chars().next());
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_forbidden(character) || character == '^' || Some(character) == ending {
            write!(out, "^{:02X}", u32::from(character)).expect("writing to a string does not fail");
        } else {
            out.push(character);
        }
    }
    out
}

fn unescape(text: &str) -> Option<String> {
    let mut pieces = text.split('^');
    let mut out = String::from(pieces.next()?);
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        out.push(char::from(u8::from_str_radix(digits, 16).ok()?));
        out.push_str(rest);
    }
    Some(out)
}

/// The smallest text above every text with this prefix, in the UTF-16 order of the service; `None` if there is none.
///
/// ```
/// use tavola_client::key::successor;
/// assert_eq!(successor("empid_0001").as_deref(), Some("empid_0002"));
/// assert_eq!(successor(""), None);
/// ```
pub fn successor(prefix: &str) -> Option<String> {
    let mut characters: Vec<char> = prefix.chars().collect();
    while let Some(last) = characters.pop() {
        if let Some(next) = next_character(last) {
            characters.push(next);
            return Some(characters.into_iter().collect());
        }
    }
    None
}

/// The next character in UTF-16 order, where those beyond U+FFFF, which begin with a surrogate, come before U+E000.
fn next_character(character: char) -> Option<char> {
    match character {
        '\u{D7FF}' => Some('\u{10000}'),
        '\u{10FFFF}' => Some('\u{E000}'),
        '\u{FFFF}' => None,
        other => char::from_u32(u32::from(other) + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    const fn part(name: &'static str, form: Form, width: Option<usize>) -> Piece {
        Piece::Part { name, form, width }
    }

    fn build<T: KeyPart>(value: &T, form: Form, separator: Option<&'static str>) -> Result<String, KeyError> {
        let mut out = String::new();
        push_part(value, form, separator, &mut out)?;
        finish(out)
    }

    fn check_order<T: KeyPart + Ord + std::fmt::Debug>(left: &T, right: &T, form: Form) {
        let (left_key, right_key) = (build(left, form, None).unwrap(), build(right, form, None).unwrap());
        let order = left.cmp(right);
        let order = if form == Form::Descending { order.reverse() } else { order };
        assert_eq!(units(&left_key).cmp(&units(&right_key)), order, "{left:?} {right:?}");
        assert_eq!(T::parse_part(&left_key, form).as_ref(), Some(left));
    }

    proptest! {
        #[test]
        fn parts_of_fixed_width_sort_as_their_values_and_parse_back(
            a: u64, b: u64, c: u32, d: u32, s: (u8, u8), m: (u16, u16), g: ([u8; 16], [u8; 16]),
            t in 0..=DateTime::MAX.ticks(), u in 0..=DateTime::MAX.ticks(),
        ) {
            check_order(&a, &b, Form::Padded(20));
            check_order(&a, &b, Form::Descending);
            check_order(&c, &d, Form::Padded(10));
            check_order(&c, &d, Form::Descending);
            check_order(&s.0, &s.1, Form::Descending);
            check_order(&m.0, &m.1, Form::Padded(5));
            check_order(&Guid(g.0), &Guid(g.1), Form::Plain);
            let (t, u) = (DateTime::from_ticks(t).unwrap(), DateTime::from_ticks(u).unwrap());
            check_order(&t, &u, Form::Plain);
            check_order(&t, &u, Form::Descending);
        }

        #[test]
        fn what_is_built_parses_back(name in "[a-c_/^#é\u{1F600}\u{1}]{0,6}", path in "[a-c_/^#é\u{1F600}\u{1}]{0,6}", id: u32) {
            const TEMPLATE: Template = Template {
                text: "x{name}__{path:esc}_y{id:010}",
                pieces: &[
                    Piece::Text("x"),
                    part("name", Form::Plain, None),
                    Piece::Text("__"),
                    part("path", Form::Escaped, None),
                    Piece::Text("_y"),
                    part("id", Form::Padded(10), Some(10)),
                ],
            };
            let mut key = String::from("x");
            let plain = push_part(&name, Form::Plain, Some("__"), &mut key);
            let forbidden = name.contains(['/', '#', '\u{1}']);
            let ambiguous = format!("{name}__").find("__") != Some(name.len());
            prop_assert_eq!(plain.is_err(), forbidden || ambiguous);
            if plain.is_ok() {
                key.push_str("__");
                push_part(&path, Form::Escaped, Some("_y"), &mut key).unwrap();
                key.push_str("_y");
                push_part(&id, Form::Padded(10), None, &mut key).unwrap();
                prop_assert!(EntityKey::from(("", key.as_str())).checked().is_ok());
                prop_assert_eq!(TEMPLATE.parse::<String>(&key, "name").unwrap(), name);
                prop_assert_eq!(TEMPLATE.parse::<String>(&key, "path").unwrap(), path);
                prop_assert_eq!(TEMPLATE.parse::<u32>(&key, "id").unwrap(), id);
            }
        }

        #[test]
        fn arbitrary_keys_never_panic(key in "\\PC{0,24}") {
            const PIECES: &[Piece] =
                &[part("a", Form::Padded(3), Some(3)), part("b", Form::Escaped, None), Piece::Text("é")];
            let _ = Template { text: "", pieces: PIECES }.parse::<String>(&key, "b");
        }

        #[test]
        fn the_successor_bounds_exactly_the_texts_with_the_prefix(
            prefix in "[a\u{D7FF}\u{E000}\u{FFFF}\u{10000}\u{10FFFF}.~]{0,3}", text in "[a-b\u{D7FF}\u{E000}\u{FFFF}\u{10000}\u{10FFFF}./0~\u{7F}]{0,5}",
        ) {
            let below = successor(&prefix).is_none_or(|end| units(&text) < units(&end));
            let inside = units(&text) >= units(&prefix) && below;
            prop_assert_eq!(inside, text.starts_with(&prefix));
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        assert_eq!(build(&1_000_000u32, Form::Padded(6), None), Err(KeyError::Width(6)));
        assert_eq!(build(&"a?".to_owned(), Form::Plain, None), Err(KeyError::Forbidden('?')));
        assert_eq!(build(&"k".repeat(513), Form::Plain, None), Err(KeyError::TooLong));
        assert!(build(&"k".repeat(512), Form::Plain, None).is_ok());
        assert!(build(&"é".repeat(512), Form::Plain, None).is_ok());
        let error = build(&"a_".to_owned(), Form::Plain, Some("__"));
        assert_eq!(error, Err(KeyError::Separator { part: "a_".into(), separator: "__" }));
    }

    #[test]
    fn a_number_reads_back_in_its_width_only() {
        assert_eq!(u32::parse_part("000212", Form::Padded(6)), Some(212));
        for text in ["212", "+00212", "0000212", "00021a", ""] {
            assert_eq!(u32::parse_part(text, Form::Padded(6)), None, "{text}");
        }
        assert_eq!(u8::parse_part("300", Form::Padded(3)), None);
    }
}
