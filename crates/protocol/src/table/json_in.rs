//! JSON request bodies to tables and entities.
//!
//! Members are read once, borrowed from the body, in order; `5` and `5.0` are different types. `odata.*` members and annotations other than `X@odata.type` are ignored, nulls are
//! dropped, and `Timestamp` is never taken from a client.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use tavola_model::{EdmType, EdmValue, ErrorCode, PropertiesBuilder, ServiceError};

use super::body::{EntityBody, KeysIn};
use super::edm_text::{self, TextValue};

/// Reads the name in the body of Create Table.
pub fn table_name(body: &[u8]) -> Result<String, ServiceError> {
    let members = read_members(body)?;
    let (_, member) =
        members.iter().find(|(name, _)| name == "TableName").ok_or_else(ServiceError::unreadable_body)?;
    Ok(text(member)?.to_owned())
}

/// Reads the body of an entity write.
pub fn entity(body: &[u8], keys: KeysIn) -> Result<EntityBody, ServiceError> {
    let members = read_members(body)?;
    let types = annotated_types(&members)?;
    // Names and values are a little shorter here than in their JSON text.
    let mut entity = EntityBody::new(PropertiesBuilder::with_capacity(members.len(), body.len()));
    for (name, member) in &members {
        let is_system = name.starts_with("odata.") || name.contains('@') || name == "Timestamp";
        if is_system || matches!(member, JsonMember::Null) {
            continue;
        }
        let annotated = types.get(name.as_ref()).copied();
        if name == "PartitionKey" || name == "RowKey" {
            if keys == KeysIn::Address {
                continue;
            }
            // A key is a string and nothing else.
            if annotated.is_some_and(|edm_type| edm_type != EdmType::String) {
                return Err(ServiceError::unreadable_body());
            }
            entity.set_key(name, text(member)?.to_owned());
            continue;
        }
        match value(name, member, annotated) {
            Ok(value) => entity.push(name, value.as_edm()),
            Err(error) if error.code == ErrorCode::InvalidInput => return Err(error),
            Err(error) => entity.refuse(error),
        }
    }
    Ok(entity)
}

/// The members of an object, in order.
pub(super) type JsonMembers<'a> = Vec<(Cow<'a, str>, JsonMember<'a>)>;

/// The value of a member, as far as the service cares.
pub(super) enum JsonMember<'a> {
    Null,
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction or an exponent, or a whole one beyond 64 bits.
    Number(f64),
    Text(Cow<'a, str>),
    /// A list or an object, which no property can be.
    Nested,
}

fn read_members(body: &[u8]) -> Result<JsonMembers<'_>, ServiceError> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    // Checked as a whole, which is quicker than text by text.
    let body = std::str::from_utf8(body).map_err(|_| ServiceError::unreadable_body())?;
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let members =
        deserializer.deserialize_map(MembersVisitor).map_err(|_| ServiceError::unreadable_body())?;
    deserializer.end().map_err(|_| ServiceError::unreadable_body())?;
    Ok(members)
}

/// Reads the members of an object.
pub(super) struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = JsonMembers<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(16);
        while let Some(name) = map.next_key::<JsonMember<'de>>()? {
            // A name that is not a text is refused by the reader of JSON itself.
            let JsonMember::Text(name) = name else { continue };
            members.push((name, map.next_value()?));
        }
        Ok(members)
    }
}

/// Reads one value in one pass; text is borrowed where it has no escapes.
impl<'de> serde::Deserialize<'de> for JsonMember<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = JsonMember<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(JsonMember::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(JsonMember::Boolean(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(JsonMember::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "a whole number beyond 64 bits is a Double by rule")]
        Ok(i64::try_from(number).map_or(JsonMember::Number(number as f64), JsonMember::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(JsonMember::Number(number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(JsonMember::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(JsonMember::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(JsonMember::Nested)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(JsonMember::Nested)
    }
}

/// The types that `X@odata.type` members give. The value of an annotation that matters must name a type.
fn annotated_types<'a>(members: &'a JsonMembers<'_>) -> Result<HashMap<&'a str, EdmType>, ServiceError> {
    let mut types = HashMap::new();
    for (name, member) in members {
        let Some(property) = name.strip_suffix("@odata.type") else { continue };
        if property.contains('@') || property == "Timestamp" {
            continue;
        }
        let edm_type = EdmType::parse(text(member)?).ok_or_else(ServiceError::unreadable_body)?;
        types.insert(property, edm_type);
    }
    Ok(types)
}

fn text<'a>(member: &'a JsonMember<'_>) -> Result<&'a str, ServiceError> {
    match member {
        JsonMember::Text(text) => Ok(text),
        _ => Err(ServiceError::unreadable_body()),
    }
}

fn value<'a>(
    name: &str,
    member: &'a JsonMember<'_>,
    annotated: Option<EdmType>,
) -> Result<TextValue<'a>, ServiceError> {
    let plain = match (member, annotated) {
        (JsonMember::Text(text), None) => EdmValue::String(text),
        (JsonMember::Text(text), Some(edm_type)) => {
            return edm_text::parse(edm_type, Cow::Borrowed(text), name);
        }
        (JsonMember::Boolean(flag), None | Some(EdmType::Boolean)) => EdmValue::Boolean(*flag),
        (JsonMember::Integer(number), None) => whole_number(*number),
        (JsonMember::Integer(number), Some(EdmType::Int32)) => {
            EdmValue::Int32(i32::try_from(*number).map_err(|_| ServiceError::unreadable_body())?)
        }
        (JsonMember::Integer(number), Some(EdmType::Double)) => double(*number),
        (JsonMember::Number(number), None | Some(EdmType::Double)) => EdmValue::Double(*number),
        _ => return Err(ServiceError::unreadable_body()),
    };
    Ok(TextValue::Plain(plain))
}

/// A whole number that fits is an Int32; every other number is a Double.
pub(super) fn whole_number(number: i64) -> EdmValue<'static> {
    i32::try_from(number).map_or_else(|_| double(number), EdmValue::Int32)
}

/// A long whole number as a Double.
pub(super) fn double(number: i64) -> EdmValue<'static> {
    #[expect(clippy::cast_precision_loss, reason = "a Double holds what it can of a long whole number")]
    EdmValue::Double(number as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let shown = match entity(body.as_bytes(), KeysIn::Body).and_then(EntityBody::into_properties) {
            Ok(properties) => {
                let list: Vec<String> =
                    properties.iter().map(|p| format!("{}={:?}", p.name, p.value)).collect();
                list.join(" ")
            }
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn types_come_from_the_annotation_or_the_form_of_the_value() {
        check(
            r#"{"a":1,"b":2147483648,"c":1.0,"d":"x","e":true}"#,
            "a=Int32(1) b=Double(2147483648.0) c=Double(1.0) d=String(\"x\") e=Boolean(true)",
        );
        check(r#"{"a":"1","a@odata.type":"Edm.Int64"}"#, "a=Int64(1)");
        check(r#"{"a@odata.type":"Edm.Double","a":5}"#, "a=Double(5.0)");
        check(r#"{"a@odata.type":"Edm.Double","a":"NaN"}"#, "a=Double(NaN)");
        check(r#"{"a":-0.0,"b":"-0","b@odata.type":"Edm.Double"}"#, "a=Double(-0.0) b=Double(-0.0)");
        check(r#"{"a@odata.type":"Edm.Int32","a":"12345"}"#, "a=Int32(12345)");
        check(r#"{"a@odata.type":"Edm.Boolean","a":"False"}"#, "a=Boolean(false)");
        check(r#"{"a@odata.type":"Edm.Binary","a":"AQI="}"#, "a=Binary([1, 2])");
    }

    #[test]
    fn nulls_system_members_and_other_annotations_are_ignored() {
        check(
            r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"never","odata.etag":"x","a":null,"b@odata.type@odata.type":"y","b":1}"#,
            "b=Int32(1)",
        );
    }

    #[test]
    fn keys_in_a_body_count_only_where_the_address_has_none() {
        let body = br#"{"PartitionKey":"c9da6455-213d-42c9-9a79-3e9149a57833","PartitionKey@odata.type":"Edm.Guid"}"#;
        assert!(entity(body, KeysIn::Address).is_ok());
        assert!(entity(body, KeysIn::Body).is_err());
    }

    #[test]
    fn what_cannot_be_read_is_invalid_input() {
        for body in [
            "",
            "[]",
            "1",
            "{",
            "{\"a\":}",
            "{\"a\":1}x",
            "{\"a\":[1]}",
            "{\"a\":{}}",
            "{\"a\":1e999}",
            r#"{"a":123,"a@odata.type":"Edm.Int64"}"#,
            r#"{"a":"x","a@odata.type":"Edm.Int64"}"#,
            r#"{"a":"x","a@odata.type":"EdmType.DATETIME"}"#,
            r#"{"a":1,"a@odata.type":"Edm.String"}"#,
            r#"{"PartitionKey":1,"RowKey":"r"}"#,
            r#"{"PartitionKey":"2020-01-01","PartitionKey@odata.type":"Edm.DateTime"}"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\u{1}\"}",
        ] {
            check(body, "InvalidInput");
        }
    }

    #[test]
    fn what_breaks_a_rule_of_the_data_model_has_its_own_code() {
        check(r#"{"a":1,"a":2}"#, "DuplicatePropertiesSpecified");
        check(r#"{"1a":1}"#, "PropertyNameInvalid");
        check(r#"{"a":"1600-01-01","a@odata.type":"Edm.DateTime"}"#, "OutOfRangeInput");
    }

    #[test]
    fn escapes_are_undone() {
        check(r#"{"a":"\u00fc\n\"\ud83d\ude00"}"#, "a=String(\"ü\\n\\\"😀\")");
    }
}
