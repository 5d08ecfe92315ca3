//! The bytes of packed properties, as they are on disk: a change of the format cannot pass unnoticed.
//!
//! `docs/formats.md` describes them. A new format gets a new version byte and a reader of the old one; then this
//! fixture stays, is only read, and the new form gets a fixture of its own.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use bytes::Bytes;
use tavola_model::{DateTime, EdmValue, Guid, Properties, PropertiesBuilder};

/// One property of each type, in the order of their type codes.
const FIXTURE: &str = "
    01 00 0900
    07000000 0c000000 18000000 24000000 39000000 41000000 4d000000 57000000 5c000000
    01 0100 42  deadbf
    02 0100 6f  01
    03 0100 74  804133a3094bdb08
    04 0100 64  000000000000f8bf
    05 0200 c3a4  c9da6455213d42c99a793e9149a57833
    06 0100 69  feffffff
    07 0100 6c  0000000000000080
    08 0100 73  c3a4f09f9880
    08 0200 7332
";

fn values() -> [(&'static str, EdmValue<'static>); 9] {
    let time = DateTime::parse("2023-05-02T12:34:56.7891328Z").unwrap();
    let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    [
        ("B", EdmValue::Binary(b"\xDE\xAD\xBF")),
        ("o", EdmValue::Boolean(true)),
        ("t", EdmValue::DateTime(time)),
        ("d", EdmValue::Double(-1.5)),
        ("ä", EdmValue::Guid(guid)),
        ("i", EdmValue::Int32(-2)),
        ("l", EdmValue::Int64(i64::MIN)),
        ("s", EdmValue::String("ä😀")),
        ("s2", EdmValue::String("")),
    ]
}

fn fixture() -> Vec<u8> {
    let digits: String = FIXTURE.split_whitespace().collect();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn properties_are_written_as_the_fixture() {
    let mut builder = PropertiesBuilder::new();
    for (name, value) in values() {
        builder.push(name, value).unwrap();
    }
    let written: String = builder.finish().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let expected: String = FIXTURE.split_whitespace().collect();
    assert_eq!(written, expected);
}

#[test]
fn the_fixture_is_read_as_its_properties() {
    let properties = Properties::from_bytes(Bytes::from(fixture())).unwrap();
    let read: Vec<_> = properties.iter().map(|property| (property.name, property.value)).collect();
    assert_eq!(read, values());
    assert_eq!(Properties::empty().as_bytes()[..], [1, 0, 0, 0]);
}

#[test]
fn another_version_is_refused() {
    let mut bytes = fixture();
    bytes[0] = 2;
    assert!(Properties::from_bytes(Bytes::from(bytes)).is_none());
}
