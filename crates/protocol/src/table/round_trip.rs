//! What is written reads back the same, for any entity, in every form that keeps the types.

use proptest::prelude::*;
use tavola_model::{
    DateTime, EdmValue, EntityKey, Guid, Key, Properties, PropertiesBuilder, Property, StoredEntity,
    TableName,
};

use super::body::KeysIn;
use super::form::Style;
use super::format::MetadataLevel;
use super::select::Select;
use super::{atom_in, atom_out, json_in, json_out};
use crate::reply::Reply;

/// A value that owns its bytes.
#[derive(Clone, Debug)]
enum Owned {
    Binary(Vec<u8>),
    Boolean(bool),
    DateTime(u64),
    Double(f64),
    Guid([u8; 16]),
    Int32(i32),
    Int64(i64),
    String(String),
}

impl Owned {
    fn as_edm(&self) -> EdmValue<'_> {
        match self {
            Owned::Binary(bytes) => EdmValue::Binary(bytes),
            Owned::Boolean(flag) => EdmValue::Boolean(*flag),
            Owned::DateTime(ticks) => EdmValue::DateTime(DateTime::from_ticks(*ticks).expect("in range")),
            Owned::Double(number) => EdmValue::Double(*number),
            Owned::Guid(bytes) => EdmValue::Guid(Guid(*bytes)),
            Owned::Int32(number) => EdmValue::Int32(*number),
            Owned::Int64(number) => EdmValue::Int64(*number),
            Owned::String(text) => EdmValue::String(text),
        }
    }
}

fn any_value() -> impl Strategy<Value = Owned> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Owned::Binary),
        any::<bool>().prop_map(Owned::Boolean),
        (DateTime::STORABLE_MIN.ticks()..=DateTime::MAX.ticks()).prop_map(Owned::DateTime),
        any::<f64>().prop_map(Owned::Double),
        prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])
            .prop_map(Owned::Double),
        any::<[u8; 16]>().prop_map(Owned::Guid),
        any::<i32>().prop_map(Owned::Int32),
        any::<i64>().prop_map(Owned::Int64),
        "[ -~\u{a0}-\u{d7ff}\u{10000}-\u{10ffff}\n\t\"<>&'\\\\]{0,40}".prop_map(Owned::String),
        // Among them the characters that XML 1.0 cannot hold.
        prop::collection::vec(any::<char>(), 0..20)
            .prop_map(|text| Owned::String(text.into_iter().collect())),
        "[\u{0}-\u{1f}\u{fffe}\u{ffff}]{1,8}".prop_map(Owned::String),
    ]
}

prop_compose! {
    fn any_entity()(
        values in prop::collection::btree_map("[A-Za-z_][A-Za-z0-9_]{0,8}", any_value(), 0..8),
        partition in "[a-zA-Z0-9 '%\u{e9}\u{1F600}]{0,12}",
        row in "[a-zA-Z0-9 '%\u{e9}\u{1F600}]{0,12}",
    ) -> StoredEntity {
        let mut builder = PropertiesBuilder::new();
        for (name, value) in values.iter().filter(|(name, _)| !matches!(name.as_str(), "PartitionKey" | "RowKey" | "Timestamp")) {
            builder.push(name, value.as_edm()).expect("a valid property");
        }
        let key = EntityKey { partition: Key::parse(&partition).expect("valid"), row: Key::parse(&row).expect("valid") };
        StoredEntity { key, timestamp: DateTime::STORABLE_MIN, properties: builder.finish() }
    }
}

fn reply() -> Reply {
    let address = tavola_model::Address::parse("127.0.0.1:1", "/acct/t");
    Reply::of(&http::Method::GET, &http::HeaderMap::new(), address.as_ref(), String::new(), false)
}

/// The same bytes but for the one NaN that the wire has: every sign and every digit counts.
fn same(left: &Properties, right: &Properties) -> bool {
    let is_same = |left: Property<'_>, right: Property<'_>| match (left.value, right.value) {
        (EdmValue::Double(left), EdmValue::Double(right)) if left.is_nan() => right.is_nan(),
        (EdmValue::Double(left), EdmValue::Double(right)) => left.to_bits() == right.to_bits(),
        (left, right) => left == right,
    };
    let names = |properties: &Properties| {
        properties.iter().map(|property| property.name.to_owned()).collect::<Vec<_>>()
    };
    names(left) == names(right) && left.iter().zip(right.iter()).all(|(left, right)| is_same(left, right))
}

proptest! {
    #[test]
    fn an_entity_in_json_reads_back(entity in any_entity(), full in any::<bool>()) {
        let level = if full { MetadataLevel::Full } else { MetadataLevel::Minimal };
        let table = TableName::parse("table").expect("valid");
        let mut body = Vec::new();
        json_out::entity(&reply(), level, &table, &entity, &Select::default(), &mut body);
        prop_assert!(body.is_ascii());
        let (key, properties) = json_in::entity(&body, KeysIn::Body).expect("readable").into_entity().expect("valid");
        prop_assert_eq!(key, entity.key);
        prop_assert!(same(&properties, &entity.properties));
    }

    #[test]
    fn an_entity_in_atom_reads_back(entity in any_entity()) {
        let table = TableName::parse("table").expect("valid");
        let body = atom_out::entity(&reply(), Style::default(), &table, &entity, &Select::default(), DateTime::STORABLE_MIN);
        let read = atom_in::entity(body.as_bytes(), KeysIn::Body).expect("readable").into_entity();
        let (key, properties) = read.expect("valid");
        prop_assert_eq!(key, entity.key);
        prop_assert!(same(&properties, &entity.properties));
    }

    #[test]
    fn no_body_makes_a_reader_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = json_in::entity(&body, KeysIn::Body);
        let _ = atom_in::entity(&body, KeysIn::Body);
        let _ = crate::table::batch_in::parse(Some("multipart/mixed; boundary=b"), &body);
        let _ = crate::xml::parse_service_properties(&body);
    }
}
