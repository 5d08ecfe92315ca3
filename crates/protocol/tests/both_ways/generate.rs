//! Values of every kind that goes over the wire.

use proptest::prelude::*;
use tavola_model::{
    AccessPolicy, DateTime, EdmValue, EntityKey, Guid, Key, Metadata, Properties, PropertiesBuilder,
    QueueName, SignedIdentifier, StoredEntity, TableName,
};

/// A value that owns its bytes.
#[derive(Clone, Debug)]
pub enum Owned {
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
    pub fn as_edm(&self) -> EdmValue<'_> {
        match self {
            Owned::Binary(bytes) => EdmValue::Binary(bytes),
            Owned::Boolean(flag) => EdmValue::Boolean(*flag),
            Owned::DateTime(ticks) => EdmValue::DateTime(DateTime::from_ticks(*ticks).unwrap()),
            Owned::Double(number) => EdmValue::Double(*number),
            Owned::Guid(bytes) => EdmValue::Guid(Guid(*bytes)),
            Owned::Int32(number) => EdmValue::Int32(*number),
            Owned::Int64(number) => EdmValue::Int64(*number),
            Owned::String(text) => EdmValue::String(text),
        }
    }
}

/// Any text, characters among it that XML does not have.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\u{a0}-\u{d7ff}\n\t\r\"<>&'\\\\]{0,40}",
        prop::collection::vec(any::<char>(), 0..20).prop_map(|text| text.into_iter().collect()),
        "[\u{0}-\u{1f}\u{fffe}\u{ffff}]{0,8}",
    ]
}

pub fn any_value() -> impl Strategy<Value = Owned> {
    let special = vec![0.0, -0.0, 1.0, 1e300, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Owned::Binary),
        any::<bool>().prop_map(Owned::Boolean),
        (DateTime::STORABLE_MIN.ticks()..=DateTime::MAX.ticks()).prop_map(Owned::DateTime),
        any::<f64>().prop_map(Owned::Double),
        prop::sample::select(special).prop_map(Owned::Double),
        any::<[u8; 16]>().prop_map(Owned::Guid),
        any::<i32>().prop_map(Owned::Int32),
        any::<i64>().prop_map(Owned::Int64),
        any_text().prop_map(Owned::String),
    ]
}

/// Properties in an order of their own.
pub fn any_values() -> impl Strategy<Value = Vec<(String, Owned)>> {
    let names = prop::collection::btree_map("[A-Za-z_\u{e9}][A-Za-z0-9_]{0,8}", any_value(), 0..8);
    let is_free = |name: &str| !matches!(name, "PartitionKey" | "RowKey" | "Timestamp");
    let list =
        names.prop_map(move |map| map.into_iter().filter(|(name, _)| is_free(name)).collect::<Vec<_>>());
    list.prop_shuffle()
}

pub fn any_key() -> impl Strategy<Value = EntityKey> {
    let key = || {
        prop_oneof![
            "[a-zA-Z0-9 '%+:@&=,$!*()\"~_.-]{0,12}",
            "[a-z\u{e9}\u{4e00}\u{1F600}]{0,6}",
            Just("''".to_owned())
        ]
    };
    (key(), key()).prop_map(|(partition, row)| EntityKey {
        partition: Key::parse(&partition).unwrap(),
        row: Key::parse(&row).unwrap(),
    })
}

pub fn any_entity() -> impl Strategy<Value = StoredEntity> {
    (any_key(), any_values(), any_time()).prop_map(|(key, values, timestamp)| StoredEntity {
        key,
        timestamp,
        properties: packed(&values),
    })
}

pub fn packed(values: &[(String, Owned)]) -> Properties {
    let mut builder = PropertiesBuilder::new();
    values.iter().for_each(|(name, value)| builder.push(name, value.as_edm()).unwrap());
    builder.finish()
}

pub fn any_time() -> impl Strategy<Value = DateTime> {
    let first = DateTime::parse("2000-01-01").unwrap().ticks();
    let last = DateTime::parse("2100-01-01").unwrap().ticks();
    (first..last).prop_map(|ticks| DateTime::from_ticks(ticks).unwrap())
}

/// Times of whole seconds, which is what headers and messages have.
pub fn any_second() -> impl Strategy<Value = DateTime> {
    any_time().prop_map(|time| DateTime::from_ticks(time.ticks() / 10_000_000 * 10_000_000).unwrap())
}

pub fn any_table() -> impl Strategy<Value = TableName> {
    "[A-SU-Za-su-z][A-Za-z0-9]{2,20}".prop_map(|name| TableName::parse(&name).unwrap())
}

pub fn any_queue() -> impl Strategy<Value = QueueName> {
    "[a-z0-9]{2,10}(-[a-z0-9]{1,5})?x".prop_map(|name| QueueName::parse(&name).unwrap())
}

pub fn any_metadata() -> impl Strategy<Value = Metadata> {
    let value = "([!-~]([ -~]{0,10}[!-~])?)?";
    prop::collection::btree_map("[a-z_][a-z0-9_]{0,8}", value, 0..4)
        .prop_map(|pairs| Metadata::parse(pairs).unwrap())
}

pub fn any_identifiers(letters: &'static str) -> impl Strategy<Value = Vec<SignedIdentifier>> {
    let permission = prop::option::of(prop::sample::subsequence(letters.chars().collect::<Vec<_>>(), 1..=4));
    let permission = permission.prop_map(|letters| letters.map(|letters| letters.into_iter().collect()));
    let policy = (prop::option::of(any_time()), prop::option::of(any_time()), permission)
        .prop_map(|(start, expiry, permission)| AccessPolicy { start, expiry, permission })
        .prop_map(|policy| (policy != AccessPolicy::default()).then_some(policy));
    let identifier = ("[!-~\u{e9}]{1,20}", policy).prop_map(|(id, policy)| SignedIdentifier { id, policy });
    prop::collection::vec(identifier, 0..=5)
}

/// The same properties in the same order, bit for bit but for the one NaN that the wire has.
pub fn same(left: &Properties, right: &Properties) -> bool {
    let is_same = |left: EdmValue<'_>, right: EdmValue<'_>| match (left, right) {
        (EdmValue::Double(left), EdmValue::Double(right)) if left.is_nan() => right.is_nan(),
        (EdmValue::Double(left), EdmValue::Double(right)) => left.to_bits() == right.to_bits(),
        (left, right) => left == right,
    };
    left.len() == right.len()
        && left
            .iter()
            .zip(right.iter())
            .all(|(left, right)| left.name == right.name && is_same(left.value, right.value))
}
