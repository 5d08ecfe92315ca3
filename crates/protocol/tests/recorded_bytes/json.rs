//! Tables and entities in JSON, and the answers that have no body.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;
use tavola_model::{
    DateTime, EdmType, EdmValue, EntityKey, EntityPage, Guid, Key, Outcome, PlanKind, PlanReport,
    PropertiesBuilder, StorageService, StoredEntity, TableName, TableOutcome, TablePage, WriteOutcome,
};
use tavola_protocol::table::{self, TableRequest};
use tavola_protocol::{Form, Response};

use crate::corpus::Exchange;

/// Encodes what a recorded JSON body of this level holds; `None` for other bodies.
pub fn encode(exchange: &Exchange, level: &str) -> Option<Response> {
    let body = exchange.body.as_deref()?;
    let is_level =
        exchange.content_type() == format!("application/json;odata={level};streaming=true;charset=utf-8");
    if !is_level || body.starts_with("{\"odata.error\"") {
        return None;
    }
    let members = read(body);
    let context = text_of(&members, "odata.metadata").unwrap_or_default();
    let (base, set) = context.split_once("$metadata#").unwrap_or_default();
    let account = account_of(&members);
    let reply = exchange.reply(base, &account);
    let mut form = form_of(exchange, set);
    let outcome = if let Some(values) = members.get("value").filter(|raw| raw.starts_with('[')) {
        let elements: Vec<Members> = serde_json::from_str(values).unwrap();
        let is_tables = exchange.path.trim_end_matches("()") == "/Tables";
        if is_tables { tables(exchange, &elements)? } else { entities(exchange, &elements) }
    } else if members.get("TableName").is_some() && exchange.path.starts_with("/Tables") {
        let table = table_of(&members)?;
        if exchange.status == 201 {
            Outcome::Table(TableOutcome::TableCreated(table))
        } else {
            Outcome::Table(TableOutcome::TableFetched(table))
        }
    } else if exchange.status == 201 {
        Outcome::Table(TableOutcome::EntityWritten(WriteOutcome::Inserted(entity(&members))))
    } else {
        Outcome::Table(TableOutcome::EntityFetched(fetched(exchange, &members)))
    };
    form.table.get_or_insert_with(any_table);
    Some(tavola_protocol::encode(
        StorageService::Table,
        &reply,
        &form,
        &Ok(outcome),
        None,
        DateTime::MIN,
        [Guid([0; 16]); 2],
    ))
}

/// Encodes a 204 whose request says what it answers; `None` for others.
pub fn encode_without_body(exchange: &Exchange) -> Option<Response> {
    if exchange.status != 204
        || !exchange.empty
        || exchange.query.contains("comp=")
        || exchange.query.contains("REDACTED")
    {
        return None;
    }
    let location = exchange.header("location").unwrap_or_default();
    let etag = exchange.header("etag").and_then(etag_time);
    let names_entity = exchange.path.contains("(PartitionKey=");
    let base_len = location.rfind('/').map_or(0, |slash| slash + 1);
    let mut form = exchange.form();
    form.table = Some(any_table());
    let outcome = match exchange.method.as_str() {
        "POST" if exchange.path.starts_with("/Tables") => {
            let name = location.split('\'').nth(1)?;
            Outcome::Table(TableOutcome::TableCreated(TableName::parse(name).unwrap()))
        }
        "POST" => {
            let (table, keys) = location.get(base_len..)?.split_once('(')?;
            form.table = Some(TableName::parse(table).unwrap());
            let key = key_of(keys.strip_suffix(')')?)?;
            let properties = PropertiesBuilder::new().finish();
            Outcome::Table(TableOutcome::EntityWritten(WriteOutcome::Inserted(StoredEntity {
                key,
                timestamp: etag?,
                properties,
            })))
        }
        "PUT" | "MERGE" | "PATCH" => {
            let key = EntityKey { partition: any_key(), row: any_key() };
            Outcome::Table(TableOutcome::EntityWritten(WriteOutcome::Updated {
                key,
                etag: tavola_model::Etag(etag?),
            }))
        }
        "DELETE" if names_entity => Outcome::Table(TableOutcome::EntityWritten(WriteOutcome::Deleted)),
        "DELETE" => Outcome::Table(TableOutcome::TableDeleted),
        _ => return None,
    };
    let reply = exchange.reply(&location[..base_len], "account");
    Some(tavola_protocol::encode(
        StorageService::Table,
        &reply,
        &form,
        &Ok(outcome),
        None,
        DateTime::MIN,
        [Guid([0; 16]); 2],
    ))
}

/// What the request asked for beside the outcome: the table's name as it was written and the selection.
pub fn form_of(exchange: &Exchange, set: &str) -> Form {
    let mut form = exchange.form();
    let address = exchange.address();
    let route = table::route(&exchange.method, &address, &exchange.query(), &exchange.request_headers);
    if let Ok(route) = route {
        let body = exchange.request_body.as_deref().unwrap_or_default().as_bytes();
        let request = TableRequest {
            address: &address,
            query: &exchange.query(),
            headers: &exchange.request_headers,
            body,
        };
        // A body that the recorder did not keep cannot be decoded; the form holds what came before it.
        let _ = table::decode(route, &request, &mut form);
    }
    let table = set.split(['/', '&']).next().unwrap_or_default();
    if let Ok(table) = TableName::parse(table) {
        form.table = Some(table);
    }
    form
}

/// A page of tables; `None` where one has a name that only the service itself can give, such as its metrics.
fn tables(exchange: &Exchange, elements: &[Members]) -> Option<Outcome> {
    let tables = elements.iter().map(table_of).collect::<Option<_>>()?;
    Some(table_page(exchange, tables))
}

fn table_of(members: &Members) -> Option<TableName> {
    TableName::parse(&text_of(members, "TableName")?).ok()
}

fn entities(exchange: &Exchange, elements: &[Members]) -> Outcome {
    page(exchange, elements.iter().map(entity).collect())
}

/// A page of tables with the continuation that the recorded headers name.
pub fn table_page(exchange: &Exchange, tables: Vec<TableName>) -> Outcome {
    let token = |_| tavola_model::TableToken { folded_name: "".into() };
    let next = exchange.header("x-ms-continuation-NextTableName").map(token);
    Outcome::Table(TableOutcome::TablesQueried(TablePage { tables, next }))
}

/// A page of entities with the continuation that the recorded headers name.
pub fn page(exchange: &Exchange, entities: Vec<StoredEntity>) -> Outcome {
    let token = |_| tavola_model::EntityToken { partition: "".into(), row: "".into() };
    let next = exchange.header("x-ms-continuation-NextPartitionKey").map(token);
    let plan = PlanReport { kind: PlanKind::Point, ranges: 0, scanned: 0, returned: 0 };
    Outcome::Table(TableOutcome::EntitiesQueried(EntityPage { entities, next, plan }))
}

/// A fetched entity; where the selection left its time out, the header still has it.
fn fetched(exchange: &Exchange, members: &Members) -> StoredEntity {
    let mut entity = entity(members);
    if let Some(time) = exchange.header("etag").and_then(etag_time) {
        entity.timestamp = time;
    }
    entity
}

fn entity(members: &Members) -> StoredEntity {
    let mut properties = PropertiesBuilder::new();
    let mut types: Vec<(String, EdmType)> = Vec::new();
    for (name, raw) in &members.0 {
        if let Some(property) = name.strip_suffix("@odata.type") {
            let edm_type: String = serde_json::from_str(raw.get()).unwrap();
            types.push((property.to_owned(), EdmType::parse(&edm_type).unwrap()));
        } else if !matches!(name.as_str(), "PartitionKey" | "RowKey" | "Timestamp")
            && !name.starts_with("odata.")
            && raw.get() != "null"
        {
            let edm_type = types.iter().find(|(property, _)| property == name).map(|(_, edm_type)| *edm_type);
            push(&mut properties, name, raw.get(), edm_type);
        }
    }
    let time = text_of(members, "Timestamp").and_then(|text| DateTime::parse(&text));
    let etag = text_of(members, "odata.etag").and_then(|text| etag_time(&text));
    let linked = text_of(members, "odata.editLink").and_then(|link| {
        let (_, keys) = link.split_once('(')?;
        key_of(keys.strip_suffix(')')?)
    });
    let member_key = |name| text_of(members, name).map_or_else(any_key, |text| Key::parse(&text).unwrap());
    StoredEntity {
        key: linked.unwrap_or_else(|| EntityKey {
            partition: member_key("PartitionKey"),
            row: member_key("RowKey"),
        }),
        timestamp: time.or(etag).unwrap_or(DateTime::MIN),
        properties: properties.finish(),
    }
}

fn push(properties: &mut PropertiesBuilder, name: &str, raw: &str, edm_type: Option<EdmType>) {
    let text = || serde_json::from_str::<String>(raw).unwrap();
    let value = match raw.as_bytes()[0] {
        b't' | b'f' => EdmValue::Boolean(raw == "true"),
        b'"' => return push_text(properties, name, &text(), edm_type.unwrap_or(EdmType::String)),
        _ if raw.contains(['.', 'E']) => EdmValue::Double(raw.parse().unwrap()),
        _ => EdmValue::Int32(raw.parse().unwrap()),
    };
    properties.push(name, value).unwrap();
}

/// Adds a value given as text with its type.
pub fn push_text(properties: &mut PropertiesBuilder, name: &str, text: &str, edm_type: EdmType) {
    use base64::Engine as _;
    let bytes;
    let value = match edm_type {
        EdmType::Binary => {
            bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
            EdmValue::Binary(&bytes)
        }
        EdmType::Boolean => EdmValue::Boolean(text == "true"),
        EdmType::DateTime => EdmValue::DateTime(DateTime::parse(text).unwrap()),
        EdmType::Double => EdmValue::Double(match text {
            "NaN" => f64::NAN,
            "Infinity" | "INF" => f64::INFINITY,
            "-Infinity" | "-INF" => f64::NEG_INFINITY,
            number => number.parse().unwrap(),
        }),
        EdmType::Guid => EdmValue::Guid(Guid::parse(text).unwrap()),
        EdmType::Int32 => EdmValue::Int32(text.parse().unwrap()),
        EdmType::Int64 => EdmValue::Int64(text.parse().unwrap()),
        EdmType::String => EdmValue::String(text),
    };
    properties.push(name, value).unwrap();
}

/// The keys in a link's parentheses.
pub fn key_of(predicate: &str) -> Option<EntityKey> {
    let text = percent_encoding::percent_decode_str(predicate).decode_utf8().ok()?;
    match tavola_odata::parse_key_predicate(&text).ok()? {
        tavola_odata::KeyPredicate::Entity { partition, row } => {
            Some(EntityKey { partition: Key::parse(&partition).ok()?, row: Key::parse(&row).ok()? })
        }
        _ => None,
    }
}

/// The time in an ETag.
pub fn etag_time(etag: &str) -> Option<DateTime> {
    let inner = etag.strip_prefix("W/\"datetime'")?.strip_suffix("'\"")?;
    DateTime::parse(&inner.replace("%3A", ":"))
}

pub fn any_table() -> TableName {
    TableName::parse("any").unwrap()
}

pub fn any_key() -> Key {
    Key::parse("").unwrap()
}

/// The account in `odata.type`, here or in the first element.
fn account_of(members: &Members) -> String {
    let first = members.get("value").and_then(|values| {
        let elements: Vec<Members> = serde_json::from_str(values).ok()?;
        text_of(elements.first()?, "odata.type")
    });
    let named = text_of(members, "odata.type").or(first).unwrap_or_default();
    named.split('.').next().unwrap_or_default().to_owned()
}

/// The members of an object in their order, values as text.
struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, raw)| raw.get())
    }
}

fn text_of(members: &Members, name: &str) -> Option<String> {
    members.get(name).and_then(|raw| serde_json::from_str(raw).ok())
}

fn read(body: &str) -> Members {
    serde_json::from_str(body).unwrap()
}

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
