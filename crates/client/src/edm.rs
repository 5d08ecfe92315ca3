//! The eight types of a property, and the Rust types that are stored as exactly one of them.
//!
//! Times keep their 100 ns ticks, whole numbers their width, doubles their bits: a value that was written reads back
//! equal. A value is borrowed where it can be ([`Edm`]) and owned where it must be kept ([`EdmValue`]).

use std::borrow::Cow;

pub use tavola_model::{DateTime, EdmType, Guid};

/// A value borrowed from where it is kept.
///
/// ```
/// use tavola_client::EdmRef;
/// assert_eq!(EdmRef::String("a").edm_type(), tavola_client::EdmType::String);
/// ```
pub type EdmRef<'a> = tavola_model::EdmValue<'a>;

/// An owned value of one of the eight types.
///
/// ```
/// use tavola_client::EdmValue;
/// let age = EdmValue::from(34);
/// assert_eq!(age, EdmValue::Int32(34));
/// assert_eq!(age.as_i64(), Some(34));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum EdmValue {
    Binary(Vec<u8>),
    Boolean(bool),
    DateTime(DateTime),
    Double(f64),
    Guid(Guid),
    Int32(i32),
    Int64(i64),
    String(String),
}

impl EdmValue {
    /// The same value, borrowed.
    ///
    /// ```
    /// use tavola_client::{EdmType, EdmValue};
    /// assert_eq!(EdmValue::from("a").borrow().edm_type(), EdmType::String);
    /// ```
    pub fn borrow(&self) -> EdmRef<'_> {
        match self {
            Self::Binary(bytes) => EdmRef::Binary(bytes),
            Self::Boolean(flag) => EdmRef::Boolean(*flag),
            Self::DateTime(time) => EdmRef::DateTime(*time),
            Self::Double(number) => EdmRef::Double(*number),
            Self::Guid(guid) => EdmRef::Guid(*guid),
            Self::Int32(number) => EdmRef::Int32(*number),
            Self::Int64(number) => EdmRef::Int64(*number),
            Self::String(text) => EdmRef::String(text),
        }
    }

    /// The type of this value.
    ///
    /// ```
    /// use tavola_client::{EdmType, EdmValue};
    /// assert_eq!(EdmValue::Int64(1).edm_type(), EdmType::Int64);
    /// ```
    pub fn edm_type(&self) -> EdmType {
        self.borrow().edm_type()
    }

    /// The text, if it is one.
    ///
    /// ```
    /// assert_eq!(tavola_client::EdmValue::from("a").as_str(), Some("a"));
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The whole number, if it is an Int32 or an Int64.
    ///
    /// ```
    /// assert_eq!(tavola_client::EdmValue::Int64(7).as_i64(), Some(7));
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int32(number) => Some(i64::from(*number)),
            Self::Int64(number) => Some(*number),
            _ => None,
        }
    }
}

impl From<EdmRef<'_>> for EdmValue {
    fn from(value: EdmRef<'_>) -> Self {
        match value {
            EdmRef::Binary(bytes) => Self::Binary(bytes.to_vec()),
            EdmRef::Boolean(flag) => Self::Boolean(flag),
            EdmRef::DateTime(time) => Self::DateTime(time),
            EdmRef::Double(number) => Self::Double(number),
            EdmRef::Guid(guid) => Self::Guid(guid),
            EdmRef::Int32(number) => Self::Int32(number),
            EdmRef::Int64(number) => Self::Int64(number),
            EdmRef::String(text) => Self::String(text.to_owned()),
        }
    }
}

/// A value on its way out: borrowed from its field, unless it had to be made.
///
/// ```
/// use tavola_client::{Edm, EdmValue, Property};
/// let text = String::from("a");
/// assert!(matches!(text.to_edm(), Some(Edm::Borrowed(_))));
/// assert_eq!(Edm::Text("b".into()).into_value(), EdmValue::from("b"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Edm<'a> {
    /// As its field holds it.
    Borrowed(EdmRef<'a>),
    /// A text that was made.
    Text(String),
    /// Bytes that were made.
    Bytes(Vec<u8>),
}

impl Edm<'_> {
    /// The value, borrowed.
    ///
    /// ```
    /// use tavola_client::{Edm, EdmRef};
    /// assert_eq!(Edm::Text("a".into()).borrow(), EdmRef::String("a"));
    /// ```
    pub fn borrow(&self) -> EdmRef<'_> {
        match self {
            Self::Borrowed(value) => *value,
            Self::Text(text) => EdmRef::String(text),
            Self::Bytes(bytes) => EdmRef::Binary(bytes),
        }
    }

    /// The value, owned.
    ///
    /// ```
    /// use tavola_client::{Edm, EdmValue};
    /// assert_eq!(Edm::Bytes(vec![1]).into_value(), EdmValue::Binary(vec![1]));
    /// ```
    pub fn into_value(self) -> EdmValue {
        match self {
            Self::Borrowed(value) => value.into(),
            Self::Text(text) => EdmValue::String(text),
            Self::Bytes(bytes) => EdmValue::Binary(bytes),
        }
    }
}

impl From<EdmValue> for Edm<'static> {
    fn from(value: EdmValue) -> Self {
        match value {
            EdmValue::Binary(bytes) => Self::Bytes(bytes),
            EdmValue::String(text) => Self::Text(text),
            EdmValue::Boolean(flag) => Self::Borrowed(EdmRef::Boolean(flag)),
            EdmValue::DateTime(time) => Self::Borrowed(EdmRef::DateTime(time)),
            EdmValue::Double(number) => Self::Borrowed(EdmRef::Double(number)),
            EdmValue::Guid(guid) => Self::Borrowed(EdmRef::Guid(guid)),
            EdmValue::Int32(number) => Self::Borrowed(EdmRef::Int32(number)),
            EdmValue::Int64(number) => Self::Borrowed(EdmRef::Int64(number)),
        }
    }
}

/// Why a value does not fit a field.
///
/// ```
/// use tavola_client::{EdmRef, Property, Unfit};
/// assert!(matches!(i32::from_edm(EdmRef::String("7")), Err(Unfit::Type(_))));
/// assert!(matches!(u8::from_edm(EdmRef::Int32(300)), Err(Unfit::Value(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is of this type, which is not that of the field.
    Type(EdmType),
    /// It is of the type of the field, and yet no value of it.
    Value(String),
}

/// A Rust type that is stored as one of the eight types.
///
/// Implement it for a type of your own to use it as a field; `#[derive(Property)]` does so for an enum, and
/// `#[entity(json)]` keeps any serde value as text.
///
/// ```
/// use tavola_client::{Edm, EdmRef, EdmType, Property, Unfit};
///
/// struct Celsius(f64);
///
/// impl Property for Celsius {
///     type Literal = f64;
///     fn to_edm(&self) -> Option<Edm<'_>> {
///         Some(Edm::Borrowed(EdmRef::Double(self.0)))
///     }
///     fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
///         f64::from_edm(value).map(Celsius)
///     }
/// }
/// assert!(Celsius::from_edm(EdmRef::Double(36.6)).is_ok());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be stored as a property",
    label = "not one of the eight types of a property",
    note = "use bool, i32, i64, f64, String, Vec<u8>, DateTime, Guid or an Option of one; an enum with `#[derive(Property)]`; or keep the field as text with `#[entity(json)]`",
    note = "u64 and usize do not fit into an Int64: choose i64, or a String"
)]
pub trait Property: Sized {
    /// What a filter compares it with: the type itself, or the inner one of an `Option`.
    type Literal;

    /// The value to store; `None` leaves the property out.
    fn to_edm(&self) -> Option<Edm<'_>>;

    /// Reads a stored value.
    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit>;

    /// What a property that is not there reads as; `None` if that is an error.
    fn absent() -> Option<Self> {
        None
    }
}

/// What may stand on the right of a comparison with a property whose literal is `L`.
///
/// ```
/// use tavola_client::{EdmValue, IntoLiteral};
/// assert_eq!(IntoLiteral::<String>::into_literal("a"), EdmValue::String("a".into()));
/// ```
#[diagnostic::on_unimplemented(
    message = "a property of `{L}` is not compared with, or set to, `{Self}`",
    label = "expected a value of `{L}`",
    note = "the service does not convert types: a comparison with a value of another type matches nothing",
    note = "`None` is no literal: the service cannot ask for, or merge, a property that is not there; use `save`"
)]
pub trait IntoLiteral<L> {
    /// The value.
    fn into_literal(self) -> EdmValue;
}

/// Types that are stored as they are.
macro_rules! exact {
    ($($rust:ty => $variant:ident),* $(,)?) => {$(
        impl Property for $rust {
            type Literal = $rust;
            fn to_edm(&self) -> Option<Edm<'_>> {
                Some(Edm::Borrowed(EdmRef::$variant(*self)))
            }
            fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
                match value {
                    EdmRef::$variant(value) => Ok(value),
                    other => Err(Unfit::Type(other.edm_type())),
                }
            }
        }
        impl IntoLiteral<$rust> for $rust {
            fn into_literal(self) -> EdmValue {
                EdmValue::$variant(self)
            }
        }
        impl From<$rust> for EdmValue {
            fn from(value: $rust) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}
exact!(bool => Boolean, i32 => Int32, i64 => Int64, f64 => Double, DateTime => DateTime, Guid => Guid);

/// Types that are stored as a wider one, which holds all their values.
macro_rules! widened {
    ($($rust:ty => $wide:ty),* $(,)?) => {$(
        impl Property for $rust {
            type Literal = $rust;
            fn to_edm(&self) -> Option<Edm<'_>> {
                Some(EdmValue::from(<$wide>::from(*self)).into())
            }
            fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
                let wide = <$wide>::from_edm(value)?;
                Self::try_from(wide).map_err(|_| Unfit::Value(format!("{wide} is out of range")))
            }
        }
        impl IntoLiteral<$rust> for $rust {
            fn into_literal(self) -> EdmValue {
                EdmValue::from(<$wide>::from(self))
            }
        }
        impl From<$rust> for EdmValue {
            fn from(value: $rust) -> Self {
                Self::from(<$wide>::from(value))
            }
        }
    )*};
}
widened!(i8 => i32, u8 => i32, i16 => i32, u16 => i32, u32 => i64);

impl Property for String {
    type Literal = String;
    fn to_edm(&self) -> Option<Edm<'_>> {
        Some(Edm::Borrowed(EdmRef::String(self)))
    }
    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        match value {
            EdmRef::String(text) => Ok(text.to_owned()),
            other => Err(Unfit::Type(other.edm_type())),
        }
    }
}

impl Property for Vec<u8> {
    type Literal = Vec<u8>;
    fn to_edm(&self) -> Option<Edm<'_>> {
        Some(Edm::Borrowed(EdmRef::Binary(self)))
    }
    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        match value {
            EdmRef::Binary(bytes) => Ok(bytes.to_vec()),
            other => Err(Unfit::Type(other.edm_type())),
        }
    }
}

/// A property that is there for some entities only.
impl<T: Property> Property for Option<T> {
    type Literal = T::Literal;
    fn to_edm(&self) -> Option<Edm<'_>> {
        self.as_ref().and_then(Property::to_edm)
    }
    fn from_edm(value: EdmRef<'_>) -> Result<Self, Unfit> {
        T::from_edm(value).map(Some)
    }
    fn absent() -> Option<Self> {
        Some(None)
    }
}

macro_rules! literals {
    ($($given:ty => $literal:ty: $convert:expr;)*) => {$(
        impl IntoLiteral<$literal> for $given {
            fn into_literal(self) -> EdmValue {
                let convert: fn($given) -> EdmValue = $convert;
                convert(self)
            }
        }
        impl From<$given> for EdmValue {
            fn from(value: $given) -> Self {
                let convert: fn($given) -> EdmValue = $convert;
                convert(value)
            }
        }
    )*};
}
literals! {
    String => String: EdmValue::String;
    &str => String: |text| EdmValue::String(text.to_owned());
    &String => String: |text| EdmValue::String(text.clone());
    Cow<'_, str> => String: |text| EdmValue::String(text.into_owned());
    Vec<u8> => Vec<u8>: EdmValue::Binary;
    &[u8] => Vec<u8>: |bytes| EdmValue::Binary(bytes.to_vec());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check<T: Property + PartialEq + std::fmt::Debug>(value: T, edm_type: EdmType) {
        let edm = value.to_edm().unwrap();
        assert_eq!(edm.borrow().edm_type(), edm_type);
        assert_eq!(T::from_edm(edm.borrow()).as_ref(), Ok(&value));
        let owned = edm.clone().into_value();
        assert_eq!(T::from_edm(owned.borrow()).as_ref(), Ok(&value));
        assert_eq!(Edm::from(owned).borrow(), edm.borrow());
    }

    proptest! {
        #[test]
        fn every_type_reads_back_equal(
            text in "\\PC{0,20}", bytes in prop::collection::vec(any::<u8>(), 0..20), flag: bool, ticks in 0..=DateTime::MAX.ticks(),
            double in any::<f64>().prop_filter("equals nothing", |number| !number.is_nan()), guid: [u8; 16], int32: i32, int64: i64,
            small: u8, short: u16, wide: u32,
        ) {
            check(text, EdmType::String);
            check(bytes, EdmType::Binary);
            check(flag, EdmType::Boolean);
            check(DateTime::from_ticks(ticks).unwrap(), EdmType::DateTime);
            check(double, EdmType::Double);
            check(Guid(guid), EdmType::Guid);
            check(int32, EdmType::Int32);
            check(int64, EdmType::Int64);
            check(small, EdmType::Int32);
            check(short, EdmType::Int32);
            check(wide, EdmType::Int64);
            check(Some(wide), EdmType::Int64);
        }
    }

    #[test]
    fn a_value_of_another_type_is_refused_not_converted() {
        assert_eq!(i64::from_edm(EdmRef::Int32(1)), Err(Unfit::Type(EdmType::Int32)));
        assert_eq!(i32::from_edm(EdmRef::Int64(1)), Err(Unfit::Type(EdmType::Int64)));
        assert_eq!(f64::from_edm(EdmRef::Int32(1)), Err(Unfit::Type(EdmType::Int32)));
        assert_eq!(String::from_edm(EdmRef::Int32(1)), Err(Unfit::Type(EdmType::Int32)));
        assert!(matches!(u16::from_edm(EdmRef::Int32(-1)), Err(Unfit::Value(_))));
    }

    #[test]
    fn only_an_optional_property_may_be_absent() {
        assert_eq!(i32::absent(), None);
        assert_eq!(Option::<i32>::absent(), Some(None));
        assert_eq!(None::<i32>.to_edm(), None);
    }
}
