//! Tables and entities as Atom entries and feeds, as the service still writes them for a client that names no
//! media type.

use tavola_model::{DateTime, EdmType, EdmValue, Etag, StoredEntity, TableName};

use super::form::Style;
use super::select::Select;
use super::{edm_text, link};
use crate::reply::Reply;
use crate::xml::{escape, escape_attribute};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";
const NAMESPACES: &str = "xmlns=\"http://www.w3.org/2005/Atom\" xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\"";
/// What a client that can read version 3.0 gets beside them, though nothing here is a place.
const SPATIAL_NAMESPACES: &str =
    " xmlns:georss=\"http://www.georss.org/georss\" xmlns:gml=\"http://www.opengis.net/gml\"";
const SCHEME: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/scheme";

/// A page of tables.
pub fn tables(reply: &Reply, style: Style, tables: &[TableName], now: DateTime) -> String {
    let mut out = feed_start(reply, style, "Tables", now);
    for table in tables {
        out.push_str("<entry>");
        write_table(reply, table, now, &mut out);
        out.push_str("</entry>");
    }
    out.push_str("</feed>");
    out
}

/// One table.
pub fn table(reply: &Reply, style: Style, table: &TableName, now: DateTime) -> String {
    let mut out = entry_start(reply, style, None);
    write_table(reply, table, now, &mut out);
    out.push_str("</entry>");
    out
}

/// A page of entities.
pub fn entities(
    reply: &Reply,
    style: Style,
    table: &TableName,
    entities: &[StoredEntity],
    select: &Select,
    now: DateTime,
) -> String {
    let mut out = feed_start(reply, style, table.as_str(), now);
    for entity in entities {
        out.push_str("<entry m:etag=\"");
        escape_attribute(&entity.etag().to_string(), &mut out);
        out.push_str("\">");
        write_entity(reply, table, entity, select, now, &mut out);
        out.push_str("</entry>");
    }
    out.push_str("</feed>");
    out
}

/// One entity.
pub fn entity(
    reply: &Reply,
    style: Style,
    table: &TableName,
    entity: &StoredEntity,
    select: &Select,
    now: DateTime,
) -> String {
    let mut out = entry_start(reply, style, Some(entity.etag()));
    write_entity(reply, table, entity, select, now, &mut out);
    out.push_str("</entry>");
    out
}

fn feed_start(reply: &Reply, style: Style, name: &str, now: DateTime) -> String {
    let mut out = format!("{DECLARATION}<feed xml:base=\"");
    escape_attribute(&reply.base, &mut out);
    out.push_str(&format!("\" {NAMESPACES}{}><id>", spatial_namespaces(style)));
    escape(&reply.base, &mut out);
    out.push_str(&format!(
        "{name}</id><title type=\"text\">{name}</title><updated>{}</updated><link rel=\"self\" title=\"{name}\" href=\"{name}\" />",
        seconds(now)
    ));
    out
}

fn spatial_namespaces(style: Style) -> &'static str {
    if style.data_service_version == "3.0" { SPATIAL_NAMESPACES } else { "" }
}

fn entry_start(reply: &Reply, style: Style, etag: Option<Etag>) -> String {
    let mut out = format!("{DECLARATION}<entry xml:base=\"");
    escape_attribute(&reply.base, &mut out);
    out.push_str(&format!("\" {NAMESPACES}{}", spatial_namespaces(style)));
    if let Some(etag) = etag {
        out.push_str(" m:etag=\"");
        escape_attribute(&etag.to_string(), &mut out);
        out.push('"');
    }
    out.push('>');
    out
}

fn write_table(reply: &Reply, table: &TableName, now: DateTime, out: &mut String) {
    let names = EntryNames { set: "Tables", edit: link::table_url("", table) };
    write_head(reply, &names, now, out);
    out.push_str(&format!("<d:TableName>{table}</d:TableName></m:properties></content>"));
}

fn write_entity(
    reply: &Reply,
    table: &TableName,
    entity: &StoredEntity,
    select: &Select,
    now: DateTime,
    out: &mut String,
) {
    let names = EntryNames { set: table.as_str(), edit: link::entity_url("", table, &entity.key) };
    write_head(reply, &names, now, out);
    if select.wants("PartitionKey") {
        write_property("PartitionKey", EdmValue::String(entity.key.partition.as_str()), out);
    }
    if select.wants("RowKey") {
        write_property("RowKey", EdmValue::String(entity.key.row.as_str()), out);
    }
    if select.wants("Timestamp") {
        write_property("Timestamp", EdmValue::DateTime(entity.timestamp), out);
    }
    select.each_chosen(entity, |property| {
        let property = property.read();
        write_property(property.name, property.value, out);
    });
    for name in select.missing(entity) {
        out.push_str("<d:");
        escape(name, out);
        out.push_str(" m:null=\"true\" />");
    }
    out.push_str("</m:properties></content>");
}

/// How an entry names itself: the set it is in and its path there.
struct EntryNames<'a> {
    set: &'a str,
    edit: String,
}

fn write_head(reply: &Reply, names: &EntryNames<'_>, now: DateTime, out: &mut String) {
    out.push_str("<id>");
    escape(&reply.base, out);
    escape(&names.edit, out);
    out.push_str("</id><category term=\"");
    escape_attribute(&reply.account, out);
    out.push_str(&format!(
        ".{}\" scheme=\"{SCHEME}\" /><link rel=\"edit\" title=\"{}\" href=\"",
        names.set, names.set
    ));
    escape_attribute(&names.edit, out);
    out.push_str(&format!(
        "\" /><title /><updated>{}</updated><author><name /></author><content type=\"application/xml\"><m:properties>",
        seconds(now)
    ));
}

fn write_property(name: &str, value: EdmValue<'_>, out: &mut String) {
    out.push_str(&format!("<d:{name}"));
    if value.edm_type() != EdmType::String {
        out.push_str(&format!(" m:type=\"{}\"", value.edm_type().as_str()));
    } else if matches!(value, EdmValue::String(text) if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace))
    {
        out.push_str(" xml:space=\"preserve\"");
    }
    out.push('>');
    match value {
        EdmValue::Binary(bytes) => {
            let mut text = Vec::new();
            edm_text::write_base64(bytes, &mut text);
            out.push_str(std::str::from_utf8(&text).expect("base64 is ASCII"));
        }
        EdmValue::Boolean(flag) => out.push_str(if flag { "true" } else { "false" }),
        EdmValue::DateTime(time) => out.push_str(&time.to_string()),
        EdmValue::Double(number) if number.is_nan() => out.push_str("NaN"),
        EdmValue::Double(f64::INFINITY) => out.push_str("INF"),
        EdmValue::Double(f64::NEG_INFINITY) => out.push_str("-INF"),
        EdmValue::Double(number) => {
            let mut text = Vec::new();
            edm_text::write_double(number, &mut text);
            out.push_str(std::str::from_utf8(&text).expect("numbers are ASCII"));
        }
        EdmValue::Guid(guid) => out.push_str(&guid.to_string()),
        EdmValue::Int32(number) => out.push_str(&number.to_string()),
        EdmValue::Int64(number) => out.push_str(&number.to_string()),
        EdmValue::String(text) => escape(text, out),
    }
    out.push_str(&format!("</d:{name}>"));
}

/// A time without its fraction.
fn seconds(time: DateTime) -> DateTime {
    DateTime::from_ticks(time.ticks() / 10_000_000 * 10_000_000).expect("rounded down")
}
