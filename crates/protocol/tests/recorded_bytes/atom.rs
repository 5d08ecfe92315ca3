//! Tables and entities in Atom.

use tavola_model::{
    DateTime, EdmType, EntityKey, Guid, Key, Outcome, PropertiesBuilder, StorageService, StoredEntity,
    TableName, TableOutcome, WriteOutcome,
};
use tavola_protocol::Response;

use crate::corpus::Exchange;
use crate::json::{any_key, etag_time, form_of, key_of, page, push_text, table_page};

/// Encodes what a recorded Atom body holds; `None` for other bodies.
pub fn encode(exchange: &Exchange) -> Option<Response> {
    let body = exchange.body.as_deref()?;
    if !exchange.content_type().starts_with("application/atom+xml") {
        return None;
    }
    let base = unescape(between(body, "xml:base=\"", "\"")?);
    let account = between(body, "<category term=\"", ".").unwrap_or_default();
    let reply = exchange.reply(&base, account);
    let now = DateTime::parse(between(body, "<updated>", "</updated>")?).unwrap();
    let set = between(body, "<link rel=\"edit\" title=\"", "\"")
        .or_else(|| between(body, "<link rel=\"self\" title=\"", "\""))?;
    let form = form_of(exchange, set);
    let entries: Vec<&str> = body.split("<entry").skip(1).collect();
    let is_feed = body.contains("<feed ");
    let outcome = match (set, is_feed) {
        ("Tables", true) => table_page(exchange, entries.iter().map(|entry| table(entry)).collect()),
        ("Tables", false) if exchange.status == 201 => {
            Outcome::Table(TableOutcome::TableCreated(table(entries[0])))
        }
        ("Tables", false) => Outcome::Table(TableOutcome::TableFetched(table(entries[0]))),
        (_, true) => page(exchange, entries.iter().map(|entry| entity(entry)).collect()),
        (_, false) if exchange.status == 201 => {
            Outcome::Table(TableOutcome::EntityWritten(WriteOutcome::Inserted(entity(entries[0]))))
        }
        (_, false) => Outcome::Table(TableOutcome::EntityFetched(entity(entries[0]))),
    };
    Some(tavola_protocol::encode(
        StorageService::Table,
        &reply,
        &form,
        &Ok(outcome),
        None,
        now,
        [Guid([0; 16]); 2],
    ))
}

fn table(entry: &str) -> TableName {
    TableName::parse(between(entry, "<d:TableName>", "</d:TableName>").unwrap()).unwrap()
}

fn entity(entry: &str) -> StoredEntity {
    let link = unescape(between(entry, "href=\"", "\"").unwrap());
    let key = link.split_once('(').and_then(|(_, keys)| key_of(keys.strip_suffix(')')?));
    let etag = between(entry, "m:etag=\"", "\"").map(unescape).unwrap();
    let mut properties = PropertiesBuilder::new();
    let mut rest = between(entry, "<m:properties>", "</m:properties>").unwrap();
    while let Some((name, attributes, text, next)) = first_property(rest) {
        rest = next;
        if matches!(name, "PartitionKey" | "RowKey" | "Timestamp") || attributes.contains("m:null=\"true\"") {
            continue;
        }
        let edm_type = between(attributes, "m:type=\"", "\"")
            .map_or(EdmType::String, |name| EdmType::parse(name).unwrap());
        push_text(&mut properties, name, &unescape(text), edm_type);
    }
    StoredEntity {
        key: key.unwrap_or_else(|| EntityKey { partition: any_key(), row: Key::parse("").unwrap() }),
        timestamp: etag_time(&etag).unwrap(),
        properties: properties.finish(),
    }
}

/// Name, attributes and text of the first element, and what follows it.
fn first_property(text: &str) -> Option<(&str, &str, &str, &str)> {
    let rest = text.strip_prefix("<d:")?;
    let (head, rest) = rest.split_once('>')?;
    let (name, attributes) = head.split_once(' ').unwrap_or((head, ""));
    if let Some(attributes) = attributes.strip_suffix('/') {
        return Some((name, attributes, "", rest));
    }
    let (text, rest) = rest.split_once(&format!("</d:{name}>"))?;
    Some((name, attributes, text, rest))
}

/// Undoes the references that XML text holds.
pub fn unescape(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#xD;", "\r")
        .replace("&amp;", "&")
}

/// What stands between two texts.
pub fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split_once(end).map(|(found, _)| found)
}
