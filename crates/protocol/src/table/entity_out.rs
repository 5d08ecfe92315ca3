//! The body of an entity write, as a client sends it.
//!
//! Every type that JSON cannot tell by itself has its annotation. Doubles have one too: emulators take a whole number
//! for an Int32 without it.

use tavola_model::{
    EdmType, EdmValue, EntityKey, ErrorCode, PROPERTY_VALUE_BYTES_MAX, ServiceError, validate_property_name,
};

use super::json_out;
use super::request_out::NamedValues;

/// Keys and properties as JSON. Refuses names and values that the service would refuse or would take for something
/// else.
pub fn entity_body(key: &EntityKey, values: NamedValues<'_>) -> Result<Vec<u8>, ServiceError> {
    let mut out = Vec::with_capacity(body_bytes(key, values));
    push_entity_body(key, values, &mut out)?;
    Ok(out)
}

/// About as many bytes as the body has, unless much of its text is escaped.
pub fn body_bytes(key: &EntityKey, values: NamedValues<'_>) -> usize {
    const MEMBER_BYTES: usize = 48;
    let properties = values.iter().map(|(name, value)| {
        let value_bytes = match value {
            EdmValue::String(text) => text.len(),
            EdmValue::Binary(bytes) => bytes.len().div_ceil(3) * 4,
            _ => 0,
        };
        name.len() + value_bytes + MEMBER_BYTES
    });
    key.partition.as_str().len() + key.row.as_str().len() + MEMBER_BYTES + properties.sum::<usize>()
}

/// Appends the body.
pub fn push_entity_body(
    key: &EntityKey,
    values: NamedValues<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ServiceError> {
    out.extend_from_slice(b"{\"PartitionKey\":");
    json_out::write_string(key.partition.as_str(), out);
    out.extend_from_slice(b",\"RowKey\":");
    json_out::write_string(key.row.as_str(), out);
    for (name, value) in values {
        check(name, *value)?;
        out.push(b',');
        if json_out::needs_annotation(*value) || value.edm_type() == EdmType::Double {
            json_out::write_name(name.as_bytes(), b"@odata.type", out);
            out.extend_from_slice(b":\"");
            out.extend_from_slice(value.edm_type().as_str().as_bytes());
            out.extend_from_slice(b"\",");
        }
        json_out::write_name(name.as_bytes(), b"", out);
        out.push(b':');
        json_out::write_value(*value, out);
    }
    out.push(b'}');
    Ok(())
}

fn check(name: &str, value: EdmValue<'_>) -> Result<(), ServiceError> {
    validate_property_name(name)?;
    if matches!(name, "PartitionKey" | "RowKey" | "Timestamp") {
        return Err(ErrorCode::PropertyNameInvalid.into());
    }
    let bytes = match value {
        EdmValue::String(text) if text.len() * 2 > PROPERTY_VALUE_BYTES_MAX => {
            2 * text.encode_utf16().count()
        }
        EdmValue::Binary(bytes) => bytes.len(),
        _ => 0,
    };
    if bytes > PROPERTY_VALUE_BYTES_MAX {
        return Err(ErrorCode::PropertyValueTooLarge.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::Key;

    fn check_body(values: NamedValues<'_>, expected: &str) {
        let key = EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse("r").unwrap() };
        let shown = match entity_body(&key, values) {
            Ok(body) => String::from_utf8(body).unwrap(),
            Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn types_that_json_does_not_tell_are_annotated() {
        check_body(
            &[
                ("i", EdmValue::Int32(1)),
                ("l", EdmValue::Int64(2)),
                ("d", EdmValue::Double(5.0)),
                ("s", EdmValue::String("é\"")),
            ],
            r#"{"PartitionKey":"p","RowKey":"r","i":1,"l@odata.type":"Edm.Int64","l":"2","d@odata.type":"Edm.Double","d":5.0,"s":"\u00e9\""}"#,
        );
    }

    #[test]
    fn names_that_mean_something_else_and_values_that_are_too_large_are_refused() {
        for name in ["Timestamp", "RowKey", "odata.etag", "a@odata.type", "", "1a"] {
            check_body(&[(name, EdmValue::Int32(1))], "PropertyNameInvalid");
        }
        let most = "é".repeat(32 * 1024);
        let more = format!("{most}a");
        let key = EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse("r").unwrap() };
        assert!(entity_body(&key, &[("a", EdmValue::String(&most))]).is_ok());
        check_body(&[("a", EdmValue::String(&more))], "PropertyValueTooLarge");
        check_body(&[("a", EdmValue::Binary(&[0; 64 * 1024 + 1]))], "PropertyValueTooLarge");
    }
}
