//! The properties of an entity in the form they are stored in.
//!
//! One byte string from request to disk and from disk to response: a filter is tested and JSON is written
//! straight from these bytes, without a map per entity. The layout (`docs/formats.md` has the full text) is
//!
//! ```text
//! u8 version = 1 | u8 zero | u16 count | u32 end[count] | records
//! record: u8 type | u16 name length | name (UTF-8) | value
//! ```
//!
//! with numbers in little-endian order and `end[i]` counted from the first record. Keys and Timestamp are not
//! in here: the key and the version of the stored row are.
//!
//! Invariant: the bytes of a `Properties` are well formed for as long as it exists.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::limits::{ENTITY_PROPERTIES_MAX, PROPERTY_NAME_UNITS_MAX, PROPERTY_VALUE_BYTES_MAX};
use super::value::{is_ascii, utf16_len};
use crate::{DateTime, EdmType, EdmValue, EntityKey, ErrorCode, Guid, ServiceError};

const VERSION: u8 = 1;
const HEADER_LEN: usize = 4;
const END_LEN: usize = 4;
const RECORD_HEAD_LEN: usize = 3;
/// The type of a string in a record.
const TEXT_CODE: u8 = 8;

/// The custom properties of one entity, packed.
#[derive(Clone, PartialEq, Eq)]
pub struct Properties {
    bytes: Bytes,
}

/// One property, borrowed from its entity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Property<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: EdmValue<'a>,
}

/// One property as it is stored: for writers that look at every byte of a text anyway, so that it need not be
/// read as UTF-8 once more.
#[derive(Clone, Copy, Debug)]
pub struct StoredProperty<'a> {
    /// Its name, in UTF-8.
    pub name: &'a [u8],
    /// Its value.
    pub value: StoredValue<'a>,
}

/// The value of a stored property.
#[derive(Clone, Copy, Debug)]
pub enum StoredValue<'a> {
    /// A string, in UTF-8.
    Text(&'a [u8]),
    /// A value of another type.
    Other(EdmValue<'a>),
}

/// One property in stored bytes that have not been checked.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedProperty<'a> {
    /// Its name, which should be UTF-8.
    pub name: &'a [u8],
    record: &'a [u8],
}

impl<'a> UncheckedProperty<'a> {
    /// Its value; `None` if it is damaged.
    pub fn value(self) -> Option<EdmValue<'a>> {
        read_value(*self.record.first()?, self.record.get(RECORD_HEAD_LEN + self.name.len()..)?)
    }
}

impl<'a> StoredProperty<'a> {
    /// The property with its texts read.
    pub fn read(self) -> Property<'a> {
        let text = |bytes| std::str::from_utf8(bytes).expect("checked when the properties were made");
        let value = match self.value {
            StoredValue::Text(bytes) => EdmValue::String(text(bytes)),
            StoredValue::Other(value) => value,
        };
        Property { name: text(self.name), value }
    }
}

impl Properties {
    /// No properties.
    pub fn empty() -> Self {
        PropertiesBuilder::new().finish()
    }

    /// Takes stored bytes if they are well formed.
    pub fn from_bytes(bytes: Bytes) -> Option<Self> {
        let properties = Self { bytes };
        properties.is_well_formed().then_some(properties)
    }

    /// The bytes to store.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[2], self.bytes[3]]))
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The properties in stored order.
    pub fn iter(&self) -> impl Iterator<Item = Property<'_>> {
        self.stored().map(StoredProperty::read)
    }

    /// The properties in stored order, as they are stored.
    pub fn stored(&self) -> impl Iterator<Item = StoredProperty<'_>> {
        let (ends, records) = self.bytes[HEADER_LEN..].split_at(self.len() * END_LEN);
        let mut start = 0;
        ends.chunks_exact(END_LEN).map(move |end| {
            let end = u32::from_le_bytes(end.try_into().expect("four bytes")) as usize;
            let record = &records[start..end];
            start = end;
            read_record(record).expect("checked when made")
        })
    }

    /// The value of the property with this name.
    pub fn get(&self, name: &str) -> Option<EdmValue<'_>> {
        let records = self.records();
        let mut start = 0;
        for index in 0..self.len() {
            let end = self.end(index);
            let record = &records[start..end];
            let name_len = usize::from(u16::from_le_bytes([record[1], record[2]]));
            if name_len == name.len()
                && &record[RECORD_HEAD_LEN..RECORD_HEAD_LEN + name_len] == name.as_bytes()
            {
                return Some(
                    read_value(record[0], &record[RECORD_HEAD_LEN + name_len..]).expect("checked when made"),
                );
            }
            start = end;
        }
        None
    }

    /// The value of one property in stored bytes that have not been checked: the outer `None` if the way to it
    /// is damaged. A filter looks at one or two properties of a row that it mostly leaves where it is.
    pub fn peek<'a>(bytes: &'a [u8], name: &str) -> Option<Option<EdmValue<'a>>> {
        let mut found = None;
        Self::visit(bytes, |record| {
            if record.name == name.as_bytes() {
                found = Some(record.value());
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        match found {
            Some(value) => value.map(Some),
            None => Some(None),
        }
    }

    /// Visits the properties in stored bytes that have not been checked, in stored order, until the visitor breaks;
    /// `None` if bytes on the way to it are damaged.
    #[inline]
    pub fn visit<'a>(
        bytes: &'a [u8],
        mut visit: impl FnMut(UncheckedProperty<'a>) -> ControlFlow<()>,
    ) -> Option<()> {
        let (head, rest) = bytes.split_at_checked(HEADER_LEN)?;
        if head[0] != VERSION || head[1] != 0 {
            return None;
        }
        let count = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (ends, records) = rest.split_at_checked(count * END_LEN)?;
        let mut start = 0;
        for end in ends.chunks_exact(END_LEN) {
            let end = u32::from_le_bytes(end.try_into().ok()?) as usize;
            let record = records.get(start..end)?;
            let name = record_name(record)?;
            if visit(UncheckedProperty { name, record }).is_break() {
                return Some(());
            }
            start = end;
        }
        Some(())
    }

    /// Size of an entity with these properties by the service's formula
    /// (<https://learn.microsoft.com/archive/blogs/windowsazurestorage/how-to-calculate-the-size-of-an-entity>).
    pub fn entity_bytes(&self, key: &EntityKey) -> usize {
        let keys = utf16_len(key.partition.as_str()) + utf16_len(key.row.as_str());
        let properties: usize = self
            .iter()
            .map(|property| 8 + 2 * utf16_len(property.name) + property.value.counted_bytes())
            .sum();
        4 + 2 * keys + properties
    }

    /// Whether an entity with these properties is larger than `bytes_max`. A bound that needs no look at the text
    /// settles nearly every case: no byte of UTF-8 stands for more than two bytes of UTF-16.
    pub fn entity_exceeds(&self, key: &EntityKey, bytes_max: usize) -> bool {
        let keys = key.partition.as_str().len() + key.row.as_str().len();
        let at_most = 4 + 2 * (keys + self.bytes.len()) + 12 * self.len();
        at_most > bytes_max && self.entity_bytes(key) > bytes_max
    }

    /// The same properties sorted by name, as the service keeps them after any update.
    #[must_use]
    pub fn sorted(&self) -> Self {
        let names: Vec<&str> = self.iter().map(|property| property.name).collect();
        if names.is_sorted() {
            return self.clone();
        }
        self.merged(&Self::empty())
    }

    /// These properties with `changes` laid over them, sorted by name.
    #[must_use]
    pub fn merged(&self, changes: &Self) -> Self {
        let mut all: Vec<Property<'_>> = changes.iter().collect();
        all.extend(self.iter().filter(|property| changes.get(property.name).is_none()));
        all.sort_by(|left, right| left.name.cmp(right.name));
        let mut builder = PropertiesBuilder::with_capacity(all.len(), self.bytes.len() + changes.bytes.len());
        for property in all {
            builder.append(property.name, property.value);
        }
        builder.finish()
    }

    fn end(&self, index: usize) -> usize {
        let at = HEADER_LEN + index * END_LEN;
        let end: [u8; END_LEN] = self.bytes[at..at + END_LEN].try_into().expect("four bytes");
        u32::from_le_bytes(end) as usize
    }

    fn records(&self) -> &[u8] {
        &self.bytes[HEADER_LEN + self.len() * END_LEN..]
    }

    fn is_well_formed(&self) -> bool {
        if self.bytes.len() < HEADER_LEN || self.bytes[0] != VERSION || self.bytes[1] != 0 {
            return false;
        }
        let count = self.len();
        if self.bytes.len() < HEADER_LEN + count * END_LEN {
            return false;
        }
        let records = self.records();
        let mut start = 0;
        for index in 0..count {
            let end = self.end(index);
            if end < start || end > records.len() || !record_is_well_formed(&records[start..end]) {
                return false;
            }
            start = end;
        }
        start == records.len()
    }
}

/// Property names and values are user data and stay out of logs.
impl std::fmt::Debug for Properties {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Properties({}, {} bytes)", self.len(), self.bytes.len())
    }
}

/// Collects properties, refusing what the service refuses.
#[derive(Default)]
pub struct PropertiesBuilder {
    /// Counted from the first record.
    ends: Vec<u32>,
    /// Space for what stands before the records, then the records.
    bytes: Vec<u8>,
    records_at: usize,
}

impl PropertiesBuilder {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// With nothing in it, and capacity for so many properties of so many bytes.
    pub fn with_capacity(count: usize, bytes: usize) -> Self {
        let records_at = HEADER_LEN + count * END_LEN;
        let mut buffer = Vec::with_capacity(records_at + bytes);
        buffer.resize(records_at, 0);
        Self { ends: Vec::with_capacity(count), bytes: buffer, records_at }
    }

    /// Adds a property after checking its name, its size, and that neither name nor number is too much.
    pub fn push(&mut self, name: &str, value: EdmValue<'_>) -> Result<(), ServiceError> {
        validate_property_name(name)?;
        let value_bytes = match value {
            EdmValue::String(text) => 2 * utf16_len(text),
            EdmValue::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        if value_bytes > PROPERTY_VALUE_BYTES_MAX {
            return Err(ErrorCode::PropertyValueTooLarge.into());
        }
        if self.has(name) {
            return Err(ErrorCode::DuplicatePropertiesSpecified.into());
        }
        if self.ends.len() == ENTITY_PROPERTIES_MAX {
            return Err(ErrorCode::TooManyProperties.into());
        }
        self.append(name, value);
        Ok(())
    }

    /// The packed properties in the order they were added.
    pub fn finish(mut self) -> Properties {
        let count = u16::try_from(self.ends.len()).expect("at most 252, or twice that in a merge");
        let head_len = HEADER_LEN + self.ends.len() * END_LEN;
        let mut head = Vec::with_capacity(head_len);
        head.extend_from_slice(&[VERSION, 0]);
        head.extend_from_slice(&count.to_le_bytes());
        for end in &self.ends {
            head.extend_from_slice(&end.to_le_bytes());
        }
        let Some(start) = self.records_at.checked_sub(head_len) else {
            self.bytes.splice(..self.records_at, head);
            return Properties { bytes: self.bytes.into() };
        };
        self.bytes[start..self.records_at].copy_from_slice(&head);
        Properties { bytes: Bytes::from(self.bytes).slice(start..) }
    }

    fn has(&self, name: &str) -> bool {
        let mut start = 0;
        self.ends.iter().any(|end| {
            let record = &self.records()[start..*end as usize];
            start = *end as usize;
            record_name(record) == Some(name.as_bytes())
        })
    }

    fn records(&self) -> &[u8] {
        &self.bytes[self.records_at..]
    }

    fn append(&mut self, name: &str, value: EdmValue<'_>) {
        let name_len = u16::try_from(name.len()).expect("a name of 255 units has at most 765 bytes");
        self.bytes.push(type_code(value.edm_type()));
        self.bytes.extend_from_slice(&name_len.to_le_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        match value {
            EdmValue::Binary(bytes) => self.bytes.extend_from_slice(bytes),
            EdmValue::Boolean(flag) => self.bytes.push(u8::from(flag)),
            EdmValue::DateTime(time) => self.bytes.extend_from_slice(&time.ticks().to_le_bytes()),
            EdmValue::Double(number) => self.bytes.extend_from_slice(&number.to_bits().to_le_bytes()),
            EdmValue::Guid(guid) => self.bytes.extend_from_slice(&guid.0),
            EdmValue::Int32(number) => self.bytes.extend_from_slice(&number.to_le_bytes()),
            EdmValue::Int64(number) => self.bytes.extend_from_slice(&number.to_le_bytes()),
            EdmValue::String(text) => self.bytes.extend_from_slice(text.as_bytes()),
        }
        self.ends.push(u32::try_from(self.records().len()).expect("252 properties of 96 KiB fit"));
    }
}

/// Checks a property name: a C# identifier of at most 255 characters
/// (<https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model#property-names>).
pub fn validate_property_name(name: &str) -> Result<(), ServiceError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let has_digit_first = name.as_bytes().first().is_none_or(u8::is_ascii_digit);
    if name.len() <= PROPERTY_NAME_UNITS_MAX && !has_digit_first && name.bytes().all(is_plain) {
        return Ok(());
    }
    if utf16_len(name) > PROPERTY_NAME_UNITS_MAX {
        return Err(ErrorCode::PropertyNameTooLong.into());
    }
    let mut characters = name.chars();
    let starts_well = characters.next().is_some_and(|first| first.is_alphabetic() || first == '_');
    // Combining marks and other identifier parts of other scripts are neither letters nor digits here, so
    // everything beyond ASCII is left to the writer, as the service's own check is known only for ASCII.
    if !starts_well || !characters.all(|c| c.is_alphanumeric() || c == '_' || !c.is_ascii()) {
        return Err(ErrorCode::PropertyNameInvalid.into());
    }
    Ok(())
}

fn type_code(edm_type: EdmType) -> u8 {
    match edm_type {
        EdmType::Binary => 1,
        EdmType::Boolean => 2,
        EdmType::DateTime => 3,
        EdmType::Double => 4,
        EdmType::Guid => 5,
        EdmType::Int32 => 6,
        EdmType::Int64 => 7,
        EdmType::String => TEXT_CODE,
    }
}

fn record_name(record: &[u8]) -> Option<&[u8]> {
    let name_len = usize::from(u16::from_le_bytes([*record.get(1)?, *record.get(2)?]));
    record.get(RECORD_HEAD_LEN..RECORD_HEAD_LEN + name_len)
}

fn record_is_well_formed(record: &[u8]) -> bool {
    // Nearly all text is ASCII, which is quicker to tell than UTF-8.
    let is_text = |bytes: &[u8]| is_ascii(bytes) || std::str::from_utf8(bytes).is_ok();
    read_record(record).is_some_and(|property| {
        is_text(property.name) && !matches!(property.value, StoredValue::Text(bytes) if !is_text(bytes))
    })
}

/// A record in its parts; whether its texts are UTF-8 is not looked at.
fn read_record(record: &[u8]) -> Option<StoredProperty<'_>> {
    let name = record_name(record)?;
    let value = &record[RECORD_HEAD_LEN + name.len()..];
    let value = match record[0] {
        TEXT_CODE => StoredValue::Text(value),
        code => StoredValue::Other(read_value(code, value)?),
    };
    Some(StoredProperty { name, value })
}

fn read_value(code: u8, bytes: &[u8]) -> Option<EdmValue<'_>> {
    Some(match code {
        1 => EdmValue::Binary(bytes),
        2 => EdmValue::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        3 => EdmValue::DateTime(DateTime::from_ticks(u64::from_le_bytes(bytes.try_into().ok()?))?),
        4 => EdmValue::Double(f64::from_bits(u64::from_le_bytes(bytes.try_into().ok()?))),
        5 => EdmValue::Guid(Guid(bytes.try_into().ok()?)),
        6 => EdmValue::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        7 => EdmValue::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        TEXT_CODE => EdmValue::String(std::str::from_utf8(bytes).ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn packed(list: &[(&str, EdmValue<'_>)]) -> Properties {
        let mut builder = PropertiesBuilder::new();
        for (name, value) in list {
            builder.push(name, *value).unwrap();
        }
        builder.finish()
    }

    fn names(properties: &Properties) -> Vec<&str> {
        properties.iter().map(|property| property.name).collect()
    }

    #[test]
    fn every_type_reads_back_as_it_was_written() {
        let all = [
            ("b", EdmValue::Binary(&[0, 255])),
            ("f", EdmValue::Boolean(true)),
            ("t", EdmValue::DateTime(DateTime::MAX)),
            ("d", EdmValue::Double(f64::NEG_INFINITY)),
            ("g", EdmValue::Guid(Guid([7; 16]))),
            ("i", EdmValue::Int32(i32::MIN)),
            ("l", EdmValue::Int64(i64::MAX)),
            ("s", EdmValue::String("ü")),
            ("e", EdmValue::String("")),
        ];
        let properties = Properties::from_bytes(packed(&all).as_bytes().clone()).unwrap();
        for (name, value) in all {
            assert_eq!(properties.get(name), Some(value));
            assert_eq!(Properties::peek(properties.as_bytes(), name), Some(Some(value)));
        }
        assert_eq!(properties.get("missing"), None);
        assert_eq!(Properties::peek(properties.as_bytes(), "missing"), Some(None));
        assert_eq!(names(&properties), ["b", "f", "t", "d", "g", "i", "l", "s", "e"]);
    }

    #[test]
    fn merge_keeps_properties_the_changes_leave_out_and_sorts_by_name() {
        let stored = packed(&[("b", EdmValue::Int32(1)), ("a", EdmValue::Int32(2))]);
        let merged = stored.merged(&packed(&[("b", EdmValue::String("new")), ("B", EdmValue::Int32(3))]));
        assert_eq!(names(&merged), ["B", "a", "b"]);
        assert_eq!(merged.get("b"), Some(EdmValue::String("new")));
        assert_eq!(names(&stored.sorted()), ["a", "b"]);
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let good = packed(&[("a", EdmValue::Int32(2)), ("t", EdmValue::String("x"))]);
        assert!(Properties::from_bytes(good.as_bytes().clone()).is_some());
        for cut in 0..good.as_bytes().len() {
            assert!(Properties::from_bytes(good.as_bytes().slice(..cut)).is_none(), "cut at {cut}");
            assert_eq!(Properties::peek(&good.as_bytes()[..cut], "missing"), None, "cut at {cut}");
        }
        for index in 0..good.as_bytes().len() {
            for value in [0u8, 1, 0x80, 0xFF] {
                let mut bytes = good.as_bytes().to_vec();
                bytes[index] = value;
                // Whatever it decides, walking an accepted value must not panic.
                let _ = Properties::peek(&bytes, "t");
                if let Some(properties) = Properties::from_bytes(bytes.into()) {
                    let _ = properties.iter().count();
                }
            }
        }
    }

    #[test]
    fn limits_of_names_values_and_count_are_kept() {
        let push = |name: &str, value: EdmValue<'_>| {
            PropertiesBuilder::new().push(name, value).map_err(|error| error.code)
        };
        assert_eq!(push(&"n".repeat(255), EdmValue::Int32(0)), Ok(()));
        assert_eq!(push(&"n".repeat(256), EdmValue::Int32(0)), Err(ErrorCode::PropertyNameTooLong));
        for bad in ["", "123", "a-b", "a b", "a.b"] {
            assert_eq!(push(bad, EdmValue::Int32(0)), Err(ErrorCode::PropertyNameInvalid), "{bad}");
        }
        assert_eq!(push("s", EdmValue::String(&"x".repeat(32 * 1024))), Ok(()));
        assert_eq!(
            push("s", EdmValue::String(&"x".repeat(32 * 1024 + 1))),
            Err(ErrorCode::PropertyValueTooLarge)
        );
        assert_eq!(push("b", EdmValue::Binary(&vec![0; 64 * 1024])), Ok(()));
        assert_eq!(
            push("b", EdmValue::Binary(&vec![0; 64 * 1024 + 1])),
            Err(ErrorCode::PropertyValueTooLarge)
        );

        let mut builder = PropertiesBuilder::new();
        for number in 0..252 {
            builder.push(&format!("p{number}"), EdmValue::Int32(number)).unwrap();
        }
        assert_eq!(
            builder.push("p0", EdmValue::Int32(0)).unwrap_err().code,
            ErrorCode::DuplicatePropertiesSpecified
        );
        assert_eq!(builder.push("p252", EdmValue::Int32(0)).unwrap_err().code, ErrorCode::TooManyProperties);
    }

    #[test]
    fn entity_size_follows_the_formula_of_the_service() {
        let key = EntityKey { partition: Key::parse("ab").unwrap(), row: Key::parse("c").unwrap() };
        let properties = packed(&[("Age", EdmValue::Int32(1)), ("Name", EdmValue::String("xy"))]);
        assert_eq!(properties.entity_bytes(&key), 4 + 2 * 3 + (8 + 6 + 4) + (8 + 8 + 8));
    }
}
