//! Entity writes and table creations: the body in either format, the keys from body or address, the condition from
//! `If-Match`.

use http::{HeaderMap, header};
use tavola_model::{EntityChange, EntityWrite, ErrorCode, EtagCondition, ServiceError, TableName};

use super::body::{EntityBody, KeysIn};
use super::route::TableRoute;
use super::{atom_in, json_in};
use crate::reply::text;

/// An entity write, read.
pub enum Decoded {
    /// As asked.
    Write(TableName, EntityWrite),
    /// It breaks a rule of the data model, which matters only where the table exists.
    Refused(TableName, ServiceError),
}

/// Reads a routed write.
pub fn decode_write(route: TableRoute, headers: &HeaderMap, body: &[u8]) -> Result<Decoded, ServiceError> {
    let (table, key, change) = match route {
        TableRoute::InsertEntity(table) => {
            return Ok(match entity_body(headers, body, KeysIn::Body)?.into_entity() {
                Ok((key, properties)) => {
                    Decoded::Write(table, EntityWrite { key, change: EntityChange::Insert(properties) })
                }
                Err(error) => Decoded::Refused(table, error),
            });
        }
        TableRoute::PutEntity(..) | TableRoute::MergeEntity(..) if body.is_empty() => {
            return Err(ServiceError::unreadable_body());
        }
        TableRoute::PutEntity(table, key) => {
            let condition = condition(headers, "PUT")?;
            match (entity_body(headers, body, KeysIn::Address)?.into_properties(), condition) {
                (Ok(properties), None) => (table, key, EntityChange::InsertOrReplace(properties)),
                (Ok(properties), Some(condition)) => {
                    (table, key, EntityChange::Update(properties, condition))
                }
                (Err(error), _) => return Ok(Decoded::Refused(table, error)),
            }
        }
        TableRoute::MergeEntity(table, key) => {
            let condition = condition(headers, "MERGE")?;
            match (entity_body(headers, body, KeysIn::Address)?.into_properties(), condition) {
                (Ok(properties), None) => (table, key, EntityChange::InsertOrMerge(properties)),
                (Ok(properties), Some(condition)) => (table, key, EntityChange::Merge(properties, condition)),
                (Err(error), _) => return Ok(Decoded::Refused(table, error)),
            }
        }
        TableRoute::DeleteEntity(table, key) => {
            let missing = match headers.get(header::IF_MATCH) {
                Some(_) => ErrorCode::InvalidInput,
                None => ErrorCode::MissingRequiredHeader,
            };
            let condition = condition(headers, "DELETE")?.ok_or(missing)?;
            (table, key, EntityChange::Delete(condition))
        }
        _ => return Err(ErrorCode::MethodNotAllowed.into()),
    };
    Ok(Decoded::Write(table, EntityWrite { key, change }))
}

/// The condition of a write; an empty `If-Match` is none, as recorded in batches.
fn condition(headers: &HeaderMap, verb: &str) -> Result<Option<EtagCondition>, ServiceError> {
    let if_match = headers.get(header::IF_MATCH).filter(|value| !value.as_bytes().trim_ascii().is_empty());
    if headers.contains_key(header::IF_NONE_MATCH) {
        let message = match if_match {
            Some(_) => {
                "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please \
                        specify either one of the headers or none of them."
                    .to_owned()
            }
            None => format!("If-None-Match HTTP header cannot be specified for {verb} operations."),
        };
        return Err(ServiceError::with_message(ErrorCode::InvalidInput, message));
    }
    match if_match {
        None => Ok(None),
        Some(value) => EtagCondition::parse(value.to_str().map_err(|_| ErrorCode::InvalidInput)?).map(Some),
    }
}

/// The media type of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyFormat {
    Json,
    Atom,
}

fn body_format(headers: &HeaderMap, body: &[u8]) -> Result<BodyFormat, ServiceError> {
    let media = text(headers, header::CONTENT_TYPE).unwrap_or_default().split(';').next().unwrap_or_default();
    match media.trim().to_ascii_lowercase().as_str() {
        "application/json" => Ok(BodyFormat::Json),
        "application/atom+xml" | "application/xml" | "text/xml" => Ok(BodyFormat::Atom),
        "" if body.trim_ascii_start().starts_with(b"{") => Ok(BodyFormat::Json),
        "" => Ok(BodyFormat::Atom),
        _ => Err(ErrorCode::MediaTypeNotSupported.into()),
    }
}

/// The name in the body of Create Table.
pub fn create_table_name(headers: &HeaderMap, body: &[u8]) -> Result<String, ServiceError> {
    match body_format(headers, body)? {
        BodyFormat::Json => json_in::table_name(body),
        BodyFormat::Atom => atom_in::table_name(body),
    }
}

fn entity_body(headers: &HeaderMap, body: &[u8], keys: KeysIn) -> Result<EntityBody, ServiceError> {
    match body_format(headers, body)? {
        BodyFormat::Json => json_in::entity(body, keys),
        BodyFormat::Atom => atom_in::entity(body, keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::{EntityKey, Key};

    fn check(verb: &str, if_match: Option<&str>, expected: &str) {
        let table = TableName::parse("table").unwrap();
        let key = EntityKey { partition: Key::parse("p").unwrap(), row: Key::parse("r").unwrap() };
        let route = match verb {
            "PUT" => TableRoute::PutEntity(table, key),
            "MERGE" => TableRoute::MergeEntity(table, key),
            _ => TableRoute::DeleteEntity(table, key),
        };
        let mut headers = HeaderMap::new();
        if let Some(value) = if_match {
            headers.insert(header::IF_MATCH, value.parse().unwrap());
        }
        let shown = match decode_write(route, &headers, b"{}") {
            Ok(Decoded::Write(_, write)) => match write.change {
                EntityChange::Insert(_) => "Insert".to_owned(),
                EntityChange::InsertOrReplace(_) => "InsertOrReplace".to_owned(),
                EntityChange::InsertOrMerge(_) => "InsertOrMerge".to_owned(),
                EntityChange::Update(_, condition) => format!("Update {condition:?}"),
                EntityChange::Merge(_, condition) => format!("Merge {condition:?}"),
                EntityChange::Delete(condition) => format!("Delete {condition:?}"),
            },
            Ok(Decoded::Refused(_, error)) | Err(error) => error.code.as_str().to_owned(),
        };
        assert_eq!(shown, expected, "{verb} {if_match:?}");
    }

    #[test]
    fn an_empty_condition_is_none() {
        for empty in [None, Some(""), Some(" ")] {
            check("PUT", empty, "InsertOrReplace");
            check("MERGE", empty, "InsertOrMerge");
        }
        check("PUT", Some("*"), "Update Any");
        check("MERGE", Some("*"), "Merge Any");
        check("DELETE", Some("*"), "Delete Any");
        check("DELETE", None, "MissingRequiredHeader");
        check("DELETE", Some(""), "InvalidInput");
    }
}
