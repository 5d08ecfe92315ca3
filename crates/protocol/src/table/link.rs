//! URLs of tables and entities, as `Location`, `odata.id` and edit links write them.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tavola_model::{EntityKey, TableName};

/// What the service leaves bare in a key: RFC 2396 unreserved characters, the quote (doubled) among them.
const BARE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'!')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')');

/// `table(PartitionKey='p',RowKey='r')`.
pub fn write_entity(table: &str, key: &EntityKey, out: &mut Vec<u8>) {
    out.extend_from_slice(table.as_bytes());
    out.extend_from_slice(b"(PartitionKey='");
    write_key(key.partition.as_str(), out);
    out.extend_from_slice(b"',RowKey='");
    write_key(key.row.as_str(), out);
    out.extend_from_slice(b"')");
}

/// `{base}table(PartitionKey='p',RowKey='r')`.
pub fn entity_url(base: &str, table: &TableName, key: &EntityKey) -> String {
    let mut url = base.as_bytes().to_vec();
    write_entity(table.as_str(), key, &mut url);
    String::from_utf8(url).expect("base and percent-encoded keys are ASCII")
}

/// `{base}Tables('t')`.
pub fn table_url(base: &str, table: &TableName) -> String {
    format!("{base}Tables('{table}')")
}

fn write_key(key: &str, out: &mut Vec<u8>) {
    for piece in utf8_percent_encode(key, BARE) {
        for part in piece.split_inclusive('\'') {
            out.extend_from_slice(part.as_bytes());
            if part.ends_with('\'') {
                out.push(b'\'');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tavola_model::Key;

    #[test]
    fn keys_are_escaped_as_recorded() {
        let key =
            EntityKey { partition: Key::parse("A'a\"_:@+,$=& b").unwrap(), row: Key::parse("ü").unwrap() };
        let table = TableName::parse("tab").unwrap();
        assert_eq!(
            entity_url("http://h/", &table, &key),
            "http://h/tab(PartitionKey='A''a%22_%3A%40%2B%2C%24%3D%26%20b',RowKey='%C3%BC')"
        );
    }
}
