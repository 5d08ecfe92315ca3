//! Atom request bodies to tables and entities.
//!
//! Only `entry/content/properties` matters; everything else of an entry is decoration. Prefixes are the
//! client's choice, so elements are told apart by local name and place.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tavola_model::{EdmType, ErrorCode, PropertiesBuilder, ServiceError};

use super::body::{EntityBody, KeysIn};
use super::edm_text;

/// Reads the name in the body of Create Table.
pub fn table_name(body: &[u8]) -> Result<String, ServiceError> {
    let properties = read_properties(body)?;
    let name = properties.into_iter().find(|property| property.name == "TableName");
    name.map(|property| property.text).ok_or_else(ServiceError::unreadable_body)
}

/// Reads the body of an entity write.
pub fn entity(body: &[u8], keys: KeysIn) -> Result<EntityBody, ServiceError> {
    let mut entity = EntityBody::new(PropertiesBuilder::new());
    for property in read_properties(body)? {
        let is_key = property.name == "PartitionKey" || property.name == "RowKey";
        if property.null || property.name == "Timestamp" || is_key && keys == KeysIn::Address {
            continue;
        }
        let edm_type = match property.edm_type.as_deref() {
            None | Some("") => EdmType::String,
            Some(text) => EdmType::parse(text).ok_or_else(ServiceError::unreadable_body)?,
        };
        if is_key {
            if edm_type != EdmType::String {
                return Err(ServiceError::unreadable_body());
            }
            entity.set_key(&property.name, property.text);
            continue;
        }
        match edm_text::parse(edm_type, Cow::Owned(property.text), &property.name) {
            Ok(value) => entity.push(&property.name, value.as_edm()),
            Err(error) if error.code == ErrorCode::InvalidInput => return Err(error),
            Err(error) => entity.refuse(error),
        }
    }
    Ok(entity)
}

struct AtomProperty {
    name: String,
    edm_type: Option<String>,
    null: bool,
    text: String,
}

/// The children of `m:properties`, in order.
fn read_properties(body: &[u8]) -> Result<Vec<AtomProperty>, ServiceError> {
    let text = std::str::from_utf8(body).map_err(|_| ServiceError::unreadable_body())?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{FEFF}'));
    let mut properties: Vec<AtomProperty> = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut found = false;
    loop {
        match reader.read_event().map_err(|_| ServiceError::unreadable_body())? {
            Event::Start(start) => {
                open(&start, &path, &mut properties, &mut found)?;
                path.push(local_name(&start));
                if path.len() > tavola_model::JSON_NESTING_MAX {
                    return Err(ServiceError::unreadable_body());
                }
            }
            Event::Empty(start) => open(&start, &path, &mut properties, &mut found)?,
            Event::End(_) => {
                path.pop();
            }
            Event::Text(text) if in_property(&path) => {
                append(&mut properties, &text.xml10_content())?;
            }
            Event::CData(text) if in_property(&path) => {
                append(&mut properties, &text.xml10_content())?;
            }
            Event::GeneralRef(reference) if in_property(&path) => {
                append(
                    &mut properties,
                    &crate::xml::resolve_reference(&reference).ok_or_else(ServiceError::unreadable_body)?,
                )?;
            }
            Event::DocType(_) => return Err(ServiceError::unreadable_body()),
            Event::Eof => break,
            _ => {}
        }
    }
    if !path.is_empty() || !found {
        return Err(ServiceError::unreadable_body());
    }
    Ok(properties)
}

fn open(
    start: &BytesStart<'_>,
    path: &[String],
    properties: &mut Vec<AtomProperty>,
    found: &mut bool,
) -> Result<(), ServiceError> {
    let name = local_name(start);
    if name == "properties" {
        *found = true;
    }
    if path.last().map(String::as_str) != Some("properties") {
        return Ok(());
    }
    let mut property = AtomProperty { name, edm_type: None, null: false, text: String::new() };
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|_| ServiceError::unreadable_body())?;
        match attribute.key.local_name().as_ref() {
            "type" => property.edm_type = Some(attribute.value.into_owned()),
            "null" => property.null = attribute.value == "true",
            _ => {}
        }
    }
    properties.push(property);
    Ok(())
}

fn in_property(path: &[String]) -> bool {
    path.len() >= 2 && path[path.len() - 2] == "properties"
}

fn append(properties: &mut [AtomProperty], piece: &str) -> Result<(), ServiceError> {
    properties.last_mut().ok_or_else(ServiceError::unreadable_body)?.text.push_str(piece);
    Ok(())
}

fn local_name(start: &BytesStart<'_>) -> String {
    start.local_name().as_ref().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(properties: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?><entry xmlns:d=\"d\" xmlns:m=\"m\" xmlns=\"a\"><title /><author><name /></author>\
             <content type=\"application/xml\"><m:properties xml:space=\"preserve\">{properties}</m:properties></content></entry>"
        )
    }

    fn check(properties: &str, expected: &str) {
        let shown =
            match entity(entry(properties).as_bytes(), KeysIn::Body).and_then(EntityBody::into_properties) {
                Ok(properties) => {
                    let list: Vec<String> =
                        properties.iter().map(|p| format!("{}={:?}", p.name, p.value)).collect();
                    list.join(" ")
                }
                Err(error) => error.code.as_str().to_owned(),
            };
        assert_eq!(shown, expected, "{properties}");
    }

    #[test]
    fn properties_are_read_by_their_type() {
        check(
            "<d:a m:type=\"Edm.Int64\">5</d:a><d:b>x &amp; y&#65;</d:b><d:n m:null=\"true\" /><d:e></d:e>",
            "a=Int64(5) b=String(\"x & yA\") e=String(\"\")",
        );
        check("<d:a m:type=\"Edm.Strange\">5</d:a>", "InvalidInput");
        check("<d:a m:type=\"Edm.Int32\">x</d:a>", "InvalidInput");
        check("<d:s> keep </d:s>", "s=String(\" keep \")");
    }

    #[test]
    fn a_table_name_is_found() {
        assert_eq!(table_name(entry("<d:TableName>abc</d:TableName>").as_bytes()).unwrap(), "abc");
        assert!(table_name(b"<entry></entry>").is_err());
    }

    #[test]
    fn documents_that_are_not_entries_are_refused() {
        for body in ["", "<", "<a><b></a>", "<!DOCTYPE x [<!ENTITY a \"b\">]><entry/>", "<entry>", "plain"] {
            assert!(entity(body.as_bytes(), KeysIn::Body).is_err(), "{body}");
        }
        assert!(entity(entry("<d:a>&unknown;</d:a>").as_bytes(), KeysIn::Body).is_err());
    }
}
