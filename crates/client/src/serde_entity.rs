//! Structs of serde as entities: for those who bring them from `azure_data_tables` 0.21.
//!
//! The struct has fields that serde names `PartitionKey` and `RowKey`. Types on the wire follow the Rust types (`i32` is
//! an Int32, `i64` an Int64); a sibling that serde names `Name@odata.type` decides instead, as it did in 0.21. There are
//! no typed filters and no templates: `#[derive(Entity)]` is the way on.

use serde::de::value::{MapDeserializer, StringDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer, Visitor};
use serde::ser::{Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use std::fmt;

use base64::Engine as _;

use crate::edm::{DateTime, Edm, EdmRef, EdmType, EdmValue, Guid};
use crate::entity::{KeyParts, Readable, Writable};
use crate::error::{KeyError, MapError};
use crate::key::EntityKey;
use crate::source::Source;
use crate::values::Values;

const TYPE_SUFFIX: &str = "@odata.type";

/// A struct of serde as an entity.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tavola_client::{DynamicEntity, EdmValue, Readable, Serde};
///
/// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
/// struct Person {
///     #[serde(rename = "PartitionKey")]
///     city: String,
///     #[serde(rename = "RowKey")]
///     name: String,
///     age: i64,
/// }
///
/// let ada = Serde(Person { city: "London".into(), name: "Ada".into(), age: 36 });
/// let sent = DynamicEntity::from_entity(&ada).unwrap();
/// assert_eq!(sent.get("age"), Some(&EdmValue::Int64(36)));
/// assert_eq!(Serde::<Person>::read(&sent.as_source()).unwrap(), ada);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Serde<T>(pub T);

impl<T: Serialize + Send + Sync> Writable for Serde<T> {
    fn key(&self) -> Result<EntityKey, KeyError> {
        let members = members(&self.0).map_err(|_| KeyError::Missing)?;
        let text = |name: &str| {
            let found = members.iter().find(|(known, _)| known == name);
            found.and_then(|(_, value)| value.as_str()).map(str::to_owned).ok_or(KeyError::Missing)
        };
        let key = EntityKey { partition: text("PartitionKey")?, row: text("RowKey")? };
        key.checked()?;
        Ok(key)
    }

    fn write<'a>(&'a self, _: KeyParts, out: &mut Values<'a>) -> Result<(), MapError> {
        let members = members(&self.0).map_err(|error| error.0)?;
        let annotation = |name: &str| {
            let found = members.iter().find(|(known, _)| known.strip_suffix(TYPE_SUFFIX) == Some(name));
            found.and_then(|(_, value)| EdmType::parse(value.as_str()?))
        };
        for (name, value) in &members {
            let is_own = !matches!(name.as_str(), "PartitionKey" | "RowKey" | "Timestamp");
            // Names with a dot or an at sign are those of the protocol, such as `odata.etag`.
            if !is_own || name.contains(['.', '@']) {
                continue;
            }
            let value = match annotation(name) {
                Some(edm_type) => {
                    convert(value, edm_type).ok_or_else(|| refused(name, "is no value of its type"))?
                }
                None => value.clone(),
            };
            out.put(name.clone(), Some(Edm::from(value)));
        }
        Ok(())
    }

    /// All of them: what the struct leaves out is removed by a save.
    fn owns(&self, _: &str) -> bool {
        true
    }
}

impl<T: DeserializeOwned + Send + 'static> Readable for Serde<T> {
    fn read(source: &Source<'_>) -> Result<Self, MapError> {
        let mut entries: Vec<(String, Value)> = Vec::new();
        for name in ["PartitionKey", "RowKey", "Timestamp"] {
            entries.extend(source.get(name).map(|value| (name.to_owned(), Value(value.into()))));
        }
        for (name, value) in source.properties() {
            if !matches!(value.edm_type(), EdmType::String | EdmType::Boolean | EdmType::Int32) {
                let edm_type = EdmValue::from(value.edm_type().as_str());
                entries.push((format!("{name}{TYPE_SUFFIX}"), Value(edm_type)));
            }
            entries.push((name, Value(value)));
        }
        let entries =
            entries.into_iter().map(|(name, value)| (StringDeserializer::<Refused>::new(name), value));
        T::deserialize(MapDeserializer::new(entries)).map(Serde).map_err(|error| error.0)
    }
}

/// A value given as text, in the type that its annotation names.
fn convert(value: &EdmValue, edm_type: EdmType) -> Option<EdmValue> {
    if value.edm_type() == edm_type {
        return Some(value.clone());
    }
    match (edm_type, value) {
        (EdmType::Int64, EdmValue::Int32(number)) => Some(EdmValue::Int64(i64::from(*number))),
        (EdmType::Double, EdmValue::Int32(number)) => Some(EdmValue::Double(f64::from(*number))),
        (EdmType::Int64, EdmValue::String(text)) => text.parse().ok().map(EdmValue::Int64),
        (EdmType::Double, EdmValue::String(text)) => text.parse().ok().map(EdmValue::Double),
        (EdmType::DateTime, EdmValue::String(text)) => DateTime::parse(text).map(EdmValue::DateTime),
        (EdmType::Guid, EdmValue::String(text)) => Guid::parse(text).map(EdmValue::Guid),
        (EdmType::Binary, EdmValue::String(text)) => {
            base64::engine::general_purpose::STANDARD.decode(text).ok().map(EdmValue::Binary)
        }
        _ => None,
    }
}

fn refused(name: &str, why: &str) -> MapError {
    MapError::Value { property: "a field of serde", cause: format!("`{name}` {why}") }
}

/// An error of serde on its way to a caller.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Refused(MapError);

impl serde::ser::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(MapError::Value { property: "a field of serde", cause: message.to_string() })
    }
}

impl serde::de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        serde::ser::Error::custom(message)
    }
}

type Members = Vec<(String, EdmValue)>;

/// Names and values of a struct or a map, in order; those without a value are left out.
fn members<T: Serialize>(value: &T) -> Result<Members, Refused> {
    value.serialize(Top)
}

/// Takes a struct or a map.
struct Top;

/// Takes its members.
#[derive(Default)]
struct Collector {
    members: Members,
    name: Option<String>,
}

/// Takes one value; none for a null.
struct One;

macro_rules! refuse {
    ($ok:ty, $($method:ident($($type:ty),*);)*) => {$(
        fn $method(self, $(_: $type),*) -> Result<$ok, Refused> {
            Err(serde::ser::Error::custom("an entity is a struct or a map"))
        }
    )*};
}

impl Serializer for Top {
    type Ok = Members;
    type Error = Refused;
    type SerializeSeq = Impossible<Members, Refused>;
    type SerializeTuple = Impossible<Members, Refused>;
    type SerializeTupleStruct = Impossible<Members, Refused>;
    type SerializeTupleVariant = Impossible<Members, Refused>;
    type SerializeMap = Collector;
    type SerializeStruct = Collector;
    type SerializeStructVariant = Impossible<Members, Refused>;

    refuse! { Members,
        serialize_bool(bool); serialize_i8(i8); serialize_i16(i16); serialize_i32(i32); serialize_i64(i64);
        serialize_u8(u8); serialize_u16(u16); serialize_u32(u32); serialize_u64(u64); serialize_f32(f32);
        serialize_f64(f64); serialize_char(char); serialize_str(&str); serialize_bytes(&[u8]); serialize_none();
        serialize_unit(); serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }
    refuse! { Self::SerializeSeq, serialize_seq(Option<usize>); serialize_tuple(usize);
        serialize_tuple_struct(&'static str, usize); serialize_tuple_variant(&'static str, u32, &'static str, usize);
        serialize_struct_variant(&'static str, u32, &'static str, usize);
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Members, Refused> {
        value.serialize(self)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Members, Refused> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<Members, Refused> {
        value.serialize(self)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Collector, Refused> {
        Ok(Collector::default())
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Collector, Refused> {
        Ok(Collector::default())
    }
}

impl Collector {
    fn add<T: Serialize + ?Sized>(&mut self, name: String, value: &T) -> Result<(), Refused> {
        let value = value.serialize(One).map_err(|error| match error.0 {
            MapError::Value { cause, .. } => Refused(refused(&name, &cause)),
            other => Refused(other),
        })?;
        self.members.extend(value.map(|value| (name, value)));
        Ok(())
    }
}

impl SerializeStruct for Collector {
    type Ok = Members;
    type Error = Refused;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Refused> {
        self.add(name.to_owned(), value)
    }
    fn end(self) -> Result<Members, Refused> {
        Ok(self.members)
    }
}

impl SerializeMap for Collector {
    type Ok = Members;
    type Error = Refused;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        match key.serialize(One)? {
            Some(EdmValue::String(name)) => self.name = Some(name),
            _ => return Err(serde::ser::Error::custom("the name of a property is text")),
        }
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let name =
            self.name.take().ok_or_else(|| <Refused as serde::ser::Error>::custom("a value has no name"))?;
        self.add(name, value)
    }
    fn end(self) -> Result<Members, Refused> {
        Ok(self.members)
    }
}

macro_rules! plain {
    ($($method:ident($type:ty);)*) => {$(
        fn $method(self, value: $type) -> Result<Option<EdmValue>, Refused> {
            Ok(Some(EdmValue::from(value)))
        }
    )*};
}

fn compound<T>() -> Result<T, Refused> {
    Err(serde::ser::Error::custom("is a list or a structure, which a property cannot be: keep it as text"))
}

impl Serializer for One {
    type Ok = Option<EdmValue>;
    type Error = Refused;
    type SerializeSeq = Impossible<Self::Ok, Refused>;
    type SerializeTuple = Impossible<Self::Ok, Refused>;
    type SerializeTupleStruct = Impossible<Self::Ok, Refused>;
    type SerializeTupleVariant = Impossible<Self::Ok, Refused>;
    type SerializeMap = Impossible<Self::Ok, Refused>;
    type SerializeStruct = Impossible<Self::Ok, Refused>;
    type SerializeStructVariant = Impossible<Self::Ok, Refused>;

    plain! {
        serialize_bool(bool); serialize_i8(i8); serialize_i16(i16); serialize_i32(i32); serialize_i64(i64);
        serialize_u8(u8); serialize_u16(u16); serialize_u32(u32); serialize_f64(f64); serialize_str(&str);
        serialize_bytes(&[u8]);
    }
    fn serialize_u64(self, value: u64) -> Result<Self::Ok, Refused> {
        let value = i64::try_from(value)
            .map_err(|_| <Refused as serde::ser::Error>::custom("does not fit an Int64"))?;
        Ok(Some(EdmValue::Int64(value)))
    }
    fn serialize_f32(self, value: f32) -> Result<Self::Ok, Refused> {
        Ok(Some(EdmValue::Double(f64::from(value))))
    }
    fn serialize_char(self, value: char) -> Result<Self::Ok, Refused> {
        Ok(Some(EdmValue::String(value.into())))
    }
    fn serialize_none(self) -> Result<Self::Ok, Refused> {
        Ok(None)
    }
    fn serialize_unit(self) -> Result<Self::Ok, Refused> {
        Ok(None)
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<Self::Ok, Refused> {
        Ok(None)
    }
    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Self::Ok, Refused> {
        Ok(Some(variant.into()))
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Self::Ok, Refused> {
        value.serialize(self)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Self::Ok, Refused> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Self::Ok, Refused> {
        compound()
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Self::SerializeSeq, Refused> {
        compound()
    }
    fn serialize_tuple(self, _: usize) -> Result<Self::SerializeTuple, Refused> {
        compound()
    }
    fn serialize_tuple_struct(
        self,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleStruct, Refused> {
        compound()
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, Refused> {
        compound()
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Self::SerializeMap, Refused> {
        compound()
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self::SerializeStruct, Refused> {
        compound()
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeStructVariant, Refused> {
        compound()
    }
}

/// A value as serde reads it.
struct Value(EdmValue);

impl IntoDeserializer<'_, Refused> for Value {
    type Deserializer = Self;
    fn into_deserializer(self) -> Self {
        self
    }
}

impl Value {
    /// The text that the service writes for it.
    fn text(&self) -> Option<String> {
        match self.0.borrow() {
            EdmRef::Binary(bytes) => Some(base64::engine::general_purpose::STANDARD.encode(bytes)),
            EdmRef::DateTime(time) => Some(time.to_string()),
            EdmRef::Guid(guid) => Some(guid.to_string()),
            EdmRef::Int64(number) => Some(number.to_string()),
            EdmRef::String(text) => Some(text.to_owned()),
            EdmRef::Boolean(_) | EdmRef::Double(_) | EdmRef::Int32(_) => None,
        }
    }
}

impl<'de> serde::Deserializer<'de> for Value {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.0 {
            EdmValue::Boolean(flag) => visitor.visit_bool(flag),
            EdmValue::Double(number) => visitor.visit_f64(number),
            EdmValue::Int32(number) => visitor.visit_i32(number),
            EdmValue::Int64(number) => visitor.visit_i64(number),
            EdmValue::Binary(ref bytes) => visitor.visit_bytes(bytes),
            EdmValue::String(text) => visitor.visit_string(text),
            EdmValue::DateTime(_) | EdmValue::Guid(_) => {
                visitor.visit_string(self.text().unwrap_or_default())
            }
        }
    }

    /// A field of text takes a value of any type that the service writes as text.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.text() {
            Some(text) => visitor.visit_string(text),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_enum(self.text().unwrap_or_default().into_deserializer())
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple tuple_struct
        map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DynamicEntity;
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Old {
        #[serde(rename = "PartitionKey")]
        partition: String,
        #[serde(rename = "RowKey")]
        row: String,
        small: i32,
        large: i64,
        note: Option<String>,
        kind: Kind,
        at: String,
        #[serde(rename = "at@odata.type")]
        at_type: String,
        count: String,
        #[serde(rename = "count@odata.type")]
        count_type: String,
    }

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    enum Kind {
        Plain,
        Special,
    }

    fn old() -> Old {
        Old {
            partition: "p".into(),
            row: "r".into(),
            small: 1,
            large: 2,
            note: None,
            kind: Kind::Special,
            at: "2026-11-15T01:02:03.1234567Z".into(),
            at_type: "Edm.DateTime".into(),
            count: "5000000000".into(),
            count_type: "Edm.Int64".into(),
        }
    }

    #[test]
    fn a_struct_of_the_old_crate_reads_back() {
        let sent = DynamicEntity::from_entity(&Serde(old())).unwrap();
        let shown: Vec<String> =
            sent.properties.iter().map(|(name, value)| format!("{name} {value:?}")).collect();
        assert_eq!(
            shown[1..],
            ["count Int64(5000000000)", "kind String(\"Special\")", "large Int64(2)", "small Int32(1)"]
        );
        assert_eq!(sent.get("at").map(EdmValue::edm_type), Some(EdmType::DateTime));
        assert_eq!(Serde::<Old>::read(&sent.as_source()).unwrap().0, old());
    }

    #[test]
    fn a_struct_without_keys_is_refused() {
        let bare = Serde(serde_json::json!({ "RowKey": "r" }));
        assert_eq!(bare.key(), Err(KeyError::Missing));
        assert_eq!(Serde(5).key(), Err(KeyError::Missing));
    }

    #[test]
    fn a_value_that_is_no_property_is_refused_by_name() {
        let nested = Serde(serde_json::json!({ "PartitionKey": "p", "RowKey": "r", "tags": ["a"] }));
        let error = DynamicEntity::from_entity(&nested).unwrap_err().to_string();
        assert!(error.contains("`tags` is a list"), "{error}");
        let wrong = Serde(
            serde_json::json!({ "PartitionKey": "p", "RowKey": "r", "a": "x", "a@odata.type": "Edm.Guid" }),
        );
        assert!(DynamicEntity::from_entity(&wrong).is_err());
    }
}
