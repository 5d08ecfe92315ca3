//! Tables and entities as JSON, at three metadata levels, byte for byte as the service writes them: compact,
//! everything beyond ASCII as `\uXXXX`, an annotation right before the property it speaks of.

use tavola_model::{DateTime, EdmType, EdmValue, Etag, StoredEntity, StoredProperty, StoredValue, TableName};

use super::edm_text;
use super::format::MetadataLevel;
use super::link;
use super::select::Select;
use crate::reply::Reply;
use crate::version::ApiVersion;

/// A page of tables.
pub fn tables(reply: &Reply, level: MetadataLevel, tables: &[TableName], out: &mut Vec<u8>) {
    out.push(b'{');
    if level != MetadataLevel::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        write_string(&format!("{}$metadata#Tables", reply.base), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"value\":[");
    for (index, table) in tables.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'{');
        table_members(reply, level, table, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// One table.
pub fn table(reply: &Reply, level: MetadataLevel, table: &TableName, out: &mut Vec<u8>) {
    out.push(b'{');
    if level != MetadataLevel::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        write_string(&format!("{}$metadata#Tables/@Element", reply.base), out);
        out.push(b',');
    }
    table_members(reply, level, table, out);
    out.push(b'}');
}

fn table_members(reply: &Reply, level: MetadataLevel, table: &TableName, out: &mut Vec<u8>) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"odata.type\":");
        write_string(&format!("{}.Tables", reply.account), out);
        out.extend_from_slice(b",\"odata.id\":");
        write_string(&link::table_url(&reply.base, table), out);
        out.extend_from_slice(b",\"odata.editLink\":");
        write_string(&link::table_url("", table), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"TableName\":");
    write_string(table.as_str(), out);
}

/// A page of entities.
pub fn entities(
    reply: &Reply,
    level: MetadataLevel,
    table: &TableName,
    entities: &[StoredEntity],
    select: &Select,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    if level != MetadataLevel::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        write_context_url(reply, table, "", select, out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"value\":[");
    for (index, entity) in entities.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.push(b'{');
        entity_members(reply, level, table, entity, select, out);
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

/// One entity.
pub fn entity(
    reply: &Reply,
    level: MetadataLevel,
    table: &TableName,
    entity: &StoredEntity,
    select: &Select,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    if level != MetadataLevel::None {
        out.extend_from_slice(b"\"odata.metadata\":");
        write_context_url(reply, table, "/@Element", select, out);
        out.push(b',');
    }
    entity_members(reply, level, table, entity, select, out);
    out.push(b'}');
}

/// `{base}$metadata#t/@Element&$select=a,%20b`: the option is repeated as it was given, spaces encoded.
fn write_context_url(reply: &Reply, table: &TableName, element: &str, select: &Select, out: &mut Vec<u8>) {
    out.push(b'"');
    for part in [&reply.base, "$metadata#", table.as_str(), element] {
        write_escaped(part.as_bytes(), out);
    }
    if let Some(text) = &select.text {
        out.extend_from_slice(b"&$select=");
        write_escaped(text.trim().replace(' ', "%20").as_bytes(), out);
    }
    out.push(b'"');
}

fn entity_members(
    reply: &Reply,
    level: MetadataLevel,
    table: &TableName,
    entity: &StoredEntity,
    select: &Select,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"odata.type\":");
        write_string(&format!("{}.{table}", reply.account), out);
        out.extend_from_slice(b",\"odata.id\":");
        write_string(&link::entity_url(&reply.base, table, &entity.key), out);
        out.push(b',');
    }
    let etag_at_minimal =
        level == MetadataLevel::Minimal && reply.version.is_at_least(ApiVersion::MINIMAL_ETAG);
    if level == MetadataLevel::Full || etag_at_minimal {
        write_etag(entity.etag(), out);
        out.push(b',');
    }
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"odata.editLink\":");
        write_string(&link::entity_url("", table, &entity.key), out);
        out.push(b',');
    }
    if select.wants("PartitionKey") {
        out.extend_from_slice(b"\"PartitionKey\":");
        write_string(entity.key.partition.as_str(), out);
        out.push(b',');
    }
    if select.wants("RowKey") {
        out.extend_from_slice(b"\"RowKey\":");
        write_string(entity.key.row.as_str(), out);
        out.push(b',');
    }
    if select.wants("Timestamp") {
        write_timestamp(level, entity.timestamp, out);
        out.push(b',');
    }
    select.each_chosen(entity, |property| {
        write_property(level, property, out);
        out.push(b',');
    });
    for name in select.missing(entity) {
        write_string(name, out);
        out.extend_from_slice(b":null,");
    }
    if out.len() > start {
        out.pop();
    }
}

fn write_etag(etag: Etag, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"odata.etag\":\"W/\\\"datetime'");
    etag.0.write_trimmed("%3A", out);
    out.extend_from_slice(b"'\\\"\"");
}

fn write_timestamp(level: MetadataLevel, timestamp: DateTime, out: &mut Vec<u8>) {
    if level == MetadataLevel::Full {
        out.extend_from_slice(b"\"Timestamp@odata.type\":\"Edm.DateTime\",");
    }
    out.extend_from_slice(b"\"Timestamp\":\"");
    timestamp.write_trimmed(":", out);
    out.push(b'"');
}

fn write_property(level: MetadataLevel, property: StoredProperty<'_>, out: &mut Vec<u8>) {
    if let StoredValue::Other(value) = property.value
        && level != MetadataLevel::None
        && needs_annotation(value)
    {
        write_name(property.name, b"@odata.type", out);
        out.extend_from_slice(b":\"");
        out.extend_from_slice(value.edm_type().as_str().as_bytes());
        out.extend_from_slice(b"\",");
    }
    write_name(property.name, b"", out);
    out.push(b':');
    match property.value {
        StoredValue::Text(text) => write_text(text, out),
        StoredValue::Other(value) => write_value(value, out),
    }
}

/// Types that JSON cannot tell by itself.
pub(super) fn needs_annotation(value: EdmValue<'_>) -> bool {
    match value.edm_type() {
        EdmType::Binary | EdmType::DateTime | EdmType::Guid | EdmType::Int64 => true,
        EdmType::Double => matches!(value, EdmValue::Double(number) if !number.is_finite()),
        EdmType::Boolean | EdmType::Int32 | EdmType::String => false,
    }
}

/// A value in its JSON form.
pub(super) fn write_value(value: EdmValue<'_>, out: &mut Vec<u8>) {
    match value {
        EdmValue::Binary(bytes) => {
            out.push(b'"');
            edm_text::write_base64(bytes, out);
            out.push(b'"');
        }
        EdmValue::Boolean(flag) => out.extend_from_slice(if flag { b"true" } else { b"false" }),
        EdmValue::DateTime(time) => {
            out.push(b'"');
            time.write_trimmed(":", out);
            out.push(b'"');
        }
        EdmValue::Double(number) => write_double(number, out),
        EdmValue::Guid(guid) => {
            out.push(b'"');
            out.extend_from_slice(&guid.to_ascii());
            out.push(b'"');
        }
        EdmValue::Int32(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
        EdmValue::Int64(number) => {
            out.push(b'"');
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.push(b'"');
        }
        EdmValue::String(text) => write_string(text, out),
    }
}

/// A number with a point or an exponent, so that it reads back as a Double; `NaN` and its kin as strings.
fn write_double(number: f64, out: &mut Vec<u8>) {
    if number.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    } else {
        let start = out.len();
        edm_text::write_double(number, out);
        if !out[start..].iter().any(|byte| matches!(byte, b'.' | b'E')) {
            out.extend_from_slice(b".0");
        }
    }
}

/// A name with a suffix, in quotes.
pub(super) fn write_name(name: &[u8], suffix: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(name, out);
    out.extend_from_slice(suffix);
    out.push(b'"');
}

/// A JSON string.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    write_text(text.as_bytes(), out);
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text, out);
    out.push(b'"');
}

/// Writes UTF-8 text without its quotes.
fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    if is_plain(text) {
        return out.extend_from_slice(text);
    }
    let text = std::str::from_utf8(text).expect("stored text was checked when it was read");
    for character in text.chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\r' => out.extend_from_slice(b"\\r"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            ' '..='\u{7F}' => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            other => {
                for unit in other.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
}

/// Whether text stands in JSON as it is: ASCII without controls, quotes and backslashes. Eight bytes at a time: the
/// top bit of each byte of a sum below says whether that byte is one of those.
fn is_plain(text: &[u8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const TOPS: u64 = ONES << 7;
    let below = |word: u64, bound: u64| word.wrapping_sub(ONES * bound) & !word;
    let equals = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let special = |word: u64| (word | below(word, 0x20) | equals(word, b'"') | equals(word, b'\\')) & TOPS;
    let (words, _) = text.as_chunks::<8>();
    let found = words.iter().fold(0, |found, word| found | special(u64::from_le_bytes(*word)));
    found | special(last_bytes(text)) == 0
}

/// The last eight bytes of a text, or all of a shorter one, some of them twice and in any order.
fn last_bytes(text: &[u8]) -> u64 {
    if let Some(last) = text.last_chunk::<8>() {
        return u64::from_le_bytes(*last);
    }
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last));
    }
    let byte = |at: usize| text.get(at).copied().unwrap_or(b' ');
    let none = b' ';
    u64::from_le_bytes([byte(0), byte(1), byte(2), none, none, none, none, none])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_string(text: &str, expected: &str) {
        let mut out = Vec::new();
        write_string(text, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn everything_beyond_ascii_is_escaped_in_lower_case() {
        check_string("plain /'<>&+\u{7F}", "\"plain /'<>&+\u{7F}\"");
        check_string("\u{e9}\u{1F600}", "\"\\u00e9\\ud83d\\ude00\"");
        check_string("a\"\\\n\r\t\u{8}\u{c}\u{1}", "\"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\"");
    }

    #[test]
    fn a_single_special_byte_is_found_wherever_it_is() {
        for length in 0..40 {
            let plain = vec![b'~'; length];
            assert!(is_plain(&plain), "{length}");
            for index in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = plain.clone();
                    text[index] = byte;
                    let expected = (0x20..0x80).contains(&byte) && byte != b'"' && byte != b'\\';
                    assert_eq!(is_plain(&text), expected, "{byte} at {index} of {length}");
                }
            }
        }
    }

    #[test]
    fn doubles_always_look_like_doubles() {
        for (number, expected) in [
            (5.0, "5.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (3.1, "3.1"),
            (1e20, "1E+20"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            let mut out = Vec::new();
            write_double(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
