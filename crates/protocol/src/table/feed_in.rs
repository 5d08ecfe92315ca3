//! Tables and entities of an Atom answer. We never ask for one, but a service may give nothing else.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use tavola_model::{DateTime, EdmType};

use super::edm_text::{self, TextValue};
use super::entity_in::{FetchedEntity, FetchedProperty};

/// A property of an entry, as it is written.
#[derive(Default)]
struct AtomProperty {
    name: String,
    edm_type: Option<String>,
    null: bool,
    text: String,
}

/// An entry: its tag and its properties.
#[derive(Default)]
pub struct Entry {
    etag: Option<String>,
    properties: Vec<AtomProperty>,
}

impl Entry {
    /// The entity that it is.
    pub fn into_entity(self) -> Result<FetchedEntity<'static>, &'static str> {
        let mut entity = FetchedEntity { etag: self.etag.map(Cow::Owned), ..FetchedEntity::default() };
        for AtomProperty { name, edm_type, null, text } in self.properties {
            match name.as_str() {
                "PartitionKey" => entity.partition_key = Some(text.into()),
                "RowKey" => entity.row_key = Some(text.into()),
                "Timestamp" => entity.timestamp = DateTime::parse(&text),
                _ if null => {}
                _ => {
                    let value = match edm_type.as_deref().and_then(EdmType::parse) {
                        Some(edm_type) => edm_text::read(edm_type, Cow::Owned(text)),
                        None => Some(TextValue::Text(text.into())),
                    };
                    let value = value.ok_or("a property is not of the type that its attribute says")?;
                    entity.properties.push(FetchedProperty { name: name.into(), value });
                }
            }
        }
        Ok(entity)
    }

    /// The name of the table that it is.
    pub fn into_table(self) -> Result<String, &'static str> {
        let name = self.properties.into_iter().find(|property| property.name == "TableName");
        name.map(|property| property.text).ok_or("a table has no name")
    }
}

/// The entries of a feed, or the one entry that the document is.
pub fn entries(text: &str) -> Result<Vec<Entry>, &'static str> {
    const MALFORMED: &str = "the body is no Atom document";
    let mut reader = Reader::from_str(text.trim_start_matches('\u{FEFF}'));
    let mut entries: Vec<Entry> = Vec::new();
    // How deep the reader is, and how deep the properties of the entry begin.
    let (mut depth, mut inside) = (0usize, None);
    loop {
        match reader.read_event().map_err(|_| MALFORMED)? {
            Event::Start(start) => {
                open(&start, depth, inside, &mut entries);
                if inside.is_none() && start.local_name().as_ref() == "properties" {
                    inside = Some(depth + 1);
                }
                depth += 1;
            }
            Event::Empty(start) => open(&start, depth, inside, &mut entries),
            Event::End(_) => {
                depth = depth.checked_sub(1).ok_or(MALFORMED)?;
                inside = inside.filter(|inside| *inside <= depth);
            }
            Event::Text(text) => append(&mut entries, depth, inside, &text.xml10_content()),
            Event::CData(text) => append(&mut entries, depth, inside, &text.xml10_content()),
            Event::GeneralRef(reference) => {
                let piece = crate::xml::resolve_reference(&reference).ok_or(MALFORMED)?;
                append(&mut entries, depth, inside, &piece);
            }
            Event::Eof if depth == 0 => return Ok(entries),
            Event::Eof | Event::DocType(_) => return Err(MALFORMED),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
    }
}

fn open(start: &BytesStart<'_>, depth: usize, inside: Option<usize>, entries: &mut Vec<Entry>) {
    let name = start.local_name().as_ref().to_owned();
    let attribute = |wanted: &str| {
        let mut attributes = start.attributes().flatten();
        let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == wanted)?;
        Some(found.value.replace("&quot;", "\"").replace("&amp;", "&"))
    };
    if inside.is_none() && name == "entry" {
        entries.push(Entry { etag: attribute("etag"), properties: Vec::new() });
    } else if inside == Some(depth)
        && let Some(entry) = entries.last_mut()
    {
        entry.properties.push(AtomProperty {
            name,
            edm_type: attribute("type"),
            null: attribute("null").is_some_and(|null| null == "true"),
            text: String::new(),
        });
    }
}

/// Text directly inside a property belongs to it.
fn append(entries: &mut [Entry], depth: usize, inside: Option<usize>, piece: &str) {
    if inside.is_some_and(|inside| inside + 1 == depth)
        && let Some(property) = entries.last_mut().and_then(|entry| entry.properties.last_mut())
    {
        property.text.push_str(piece);
    }
}
