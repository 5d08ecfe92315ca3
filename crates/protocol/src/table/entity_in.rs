//! Tables and entities of a JSON answer, at any metadata level.
//!
//! Texts are borrowed from the body where they have no escapes. Properties keep their order and their exact types: an
//! annotation decides, else the form of the value. Nulls, which stand for properties that an entity does not have,
//! are left out.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use tavola_model::{
    DateTime, EdmType, EdmValue, EntityKey, Key, PropertiesBuilder, ServiceError, StoredEntity,
};

use super::edm_text::{self, TextValue};
use super::json_in::{JsonMember, JsonMembers, MembersVisitor, double, whole_number};

/// An entity as an answer gives it: with `$select`, only what was asked for.
#[derive(Debug, Default)]
pub struct FetchedEntity<'a> {
    /// Its tag, if the answer tells it.
    pub etag: Option<Cow<'a, str>>,
    /// Its PartitionKey.
    pub partition_key: Option<Cow<'a, str>>,
    /// Its RowKey.
    pub row_key: Option<Cow<'a, str>>,
    /// When it was last written.
    pub timestamp: Option<DateTime>,
    /// Its other properties, in order.
    pub properties: Vec<FetchedProperty<'a>>,
}

/// A property of an answer.
#[derive(Debug)]
pub struct FetchedProperty<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value.
    pub value: TextValue<'a>,
}

impl FetchedEntity<'_> {
    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<EdmValue<'_>> {
        let found = self.properties.iter().find(|property| property.name == name);
        found.map(|property| property.value.as_edm())
    }

    /// Both keys, if the answer has them.
    pub fn key(&self) -> Option<Result<EntityKey, ServiceError>> {
        let (partition, row) = (self.partition_key.as_deref()?, self.row_key.as_deref()?);
        Some(Key::parse(partition).and_then(|partition| Ok(EntityKey { partition, row: Key::parse(row)? })))
    }

    /// The entity in the form of the store; `None` if keys or Timestamp were not asked for, or if it breaks a rule of
    /// the data model, as an emulator may let it.
    pub fn to_stored(&self) -> Option<StoredEntity> {
        let mut properties = PropertiesBuilder::with_capacity(self.properties.len(), 0);
        for property in &self.properties {
            properties.push(&property.name, property.value.as_edm()).ok()?;
        }
        let (key, timestamp) = (self.key()?.ok()?, self.timestamp?);
        Some(StoredEntity { key, timestamp, properties: properties.finish() })
    }
}

/// Reads one entity.
pub fn entity(text: &str) -> Result<FetchedEntity<'_>, &'static str> {
    let object: Object<'_> = serde_json::from_str(text).map_err(|_| "the body is no JSON object")?;
    object.into_entity()
}

/// Reads a page of entities.
pub fn entities(text: &str) -> Result<Vec<FetchedEntity<'_>>, &'static str> {
    page(text)?.into_iter().map(Object::into_entity).collect()
}

/// Reads the name of one table.
pub fn table(text: &str) -> Result<String, &'static str> {
    let object: Object<'_> = serde_json::from_str(text).map_err(|_| "the body is no JSON object")?;
    object.into_table()
}

/// Reads a page of tables.
pub fn tables(text: &str) -> Result<Vec<String>, &'static str> {
    page(text)?.into_iter().map(Object::into_table).collect()
}

fn page(text: &str) -> Result<Vec<Object<'_>>, &'static str> {
    let page: Page<'_> = serde_json::from_str(text).map_err(|_| "the body is no JSON list")?;
    page.0.ok_or("the body has no list of values")
}

/// A JSON object with its members in order.
struct Object<'a>(JsonMembers<'a>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Object)
    }
}

/// The list in `{"odata.metadata":…,"value":[…]}`.
struct Page<'a>(Option<Vec<Object<'a>>>);

impl<'de> Deserialize<'de> for Page<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PageVisitor)
    }
}

struct PageVisitor;

impl<'de> Visitor<'de> for PageVisitor {
    type Value = Page<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut value = None;
        while let Some(name) = map.next_key::<JsonMember<'de>>()? {
            match name {
                JsonMember::Text(name) if name == "value" => value = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Page(value))
    }
}

const TYPE_SUFFIX: &str = "@odata.type";

impl<'a> Object<'a> {
    fn into_table(self) -> Result<String, &'static str> {
        let name = self.0.into_iter().find(|(name, _)| name == "TableName");
        match name {
            Some((_, JsonMember::Text(name))) => Ok(name.into_owned()),
            _ => Err("a table has no name"),
        }
    }

    fn into_entity(self) -> Result<FetchedEntity<'a>, &'static str> {
        let mut entity = FetchedEntity::default();
        let loose = loose_annotations(&self.0);
        entity.properties.reserve_exact(self.0.len());
        // The service writes an annotation right before the property it speaks of.
        let mut before: Option<(Cow<'a, str>, Option<EdmType>)> = None;
        for (name, member) in self.0 {
            if name.ends_with(TYPE_SUFFIX) {
                before = Some((name, edm_type(&member)));
                continue;
            }
            let annotated = match before.take() {
                Some((of, edm_type)) if of.strip_suffix(TYPE_SUFFIX) == Some(&name) => edm_type,
                _ => loose.iter().find(|(property, _)| *property == name).and_then(|(_, edm_type)| *edm_type),
            };
            match (name.as_ref(), member) {
                ("PartitionKey", JsonMember::Text(text)) => entity.partition_key = Some(text),
                ("RowKey", JsonMember::Text(text)) => entity.row_key = Some(text),
                ("Timestamp", JsonMember::Text(text)) => entity.timestamp = DateTime::parse(&text),
                ("odata.etag", JsonMember::Text(text)) => entity.etag = Some(text),
                (_, JsonMember::Null) => {}
                (system, _) if system.starts_with("odata.") || system.contains('@') => {}
                (_, member) => {
                    entity.properties.push(FetchedProperty { value: value(member, annotated)?, name })
                }
            }
        }
        Ok(entity)
    }
}

/// The annotations that do not stand right before their property.
fn loose_annotations(members: &JsonMembers<'_>) -> Vec<(String, Option<EdmType>)> {
    let mut loose = Vec::new();
    for (index, (name, member)) in members.iter().enumerate() {
        let Some(property) = name.strip_suffix(TYPE_SUFFIX) else { continue };
        if members.get(index + 1).is_none_or(|(next, _)| next != property) {
            loose.push((property.to_owned(), edm_type(member)));
        }
    }
    loose
}

fn edm_type(member: &JsonMember<'_>) -> Option<EdmType> {
    match member {
        JsonMember::Text(text) => EdmType::parse(text),
        _ => None,
    }
}

fn value<'a>(member: JsonMember<'a>, annotated: Option<EdmType>) -> Result<TextValue<'a>, &'static str> {
    const WRONG: &str = "a property is not of the type that its annotation says";
    Ok(TextValue::Plain(match (member, annotated) {
        (JsonMember::Text(text), None) => return Ok(TextValue::Text(text)),
        (JsonMember::Text(text), Some(edm_type)) => return edm_text::read(edm_type, text).ok_or(WRONG),
        (JsonMember::Boolean(flag), None | Some(EdmType::Boolean)) => EdmValue::Boolean(flag),
        (JsonMember::Integer(number), None) => whole_number(number),
        (JsonMember::Integer(number), Some(EdmType::Int32)) => {
            EdmValue::Int32(i32::try_from(number).map_err(|_| WRONG)?)
        }
        (JsonMember::Integer(number), Some(EdmType::Int64)) => EdmValue::Int64(number),
        (JsonMember::Integer(number), Some(EdmType::Double)) => double(number),
        (JsonMember::Number(number), None | Some(EdmType::Double)) => EdmValue::Double(number),
        (JsonMember::Nested, _) => return Err("a property is a list or an object"),
        _ => return Err(WRONG),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let shown = match entity(body) {
            Ok(entity) => {
                let list: Vec<String> = entity
                    .properties
                    .iter()
                    .map(|property| format!("{}={:?}", property.name, property.value.as_edm()))
                    .collect();
                list.join(" ")
            }
            Err(reason) => reason.to_owned(),
        };
        assert_eq!(shown, expected, "{body}");
    }

    #[test]
    fn annotations_count_wherever_they_stand() {
        check(r#"{"a@odata.type":"Edm.Int64","a":"5","b":"5"}"#, "a=Int64(5) b=String(\"5\")");
        check(r#"{"a":"5","b":"5","a@odata.type":"Edm.Int64"}"#, "a=Int64(5) b=String(\"5\")");
        check(r#"{"b@odata.type":"Edm.Guid","a@odata.type":"Edm.Int64","a":5}"#, "a=Int64(5)");
        check(r#"{"a@odata.type":"Edm.New","a":"x"}"#, "a=String(\"x\")");
        check(
            r#"{"a":5,"b":5.0,"c":null,"d@odata.type":"Edm.Double","d":5}"#,
            "a=Int32(5) b=Double(5.0) d=Double(5.0)",
        );
    }

    #[test]
    fn what_is_no_entity_is_told() {
        check(
            r#"{"a@odata.type":"Edm.Int64","a":"x"}"#,
            "a property is not of the type that its annotation says",
        );
        check(r#"{"a":[1]}"#, "a property is a list or an object");
        check("[]", "the body is no JSON object");
        check("", "the body is no JSON object");
        assert!(entities(r#"{"values":[]}"#).is_err());
        assert!(tables(r#"{"value":[{}]}"#).is_err());
    }
}
