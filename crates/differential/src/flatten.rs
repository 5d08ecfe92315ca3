//! Bodies of every form as a flat list of paths and values, so that one comparison serves them all.

use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

/// A path such as `value[0].Age`, and the value there.
pub type Field = (String, String);

/// Elements that stand in lists: each is counted, the first too.
const LIST_ELEMENTS: [&str; 12] = [
    "QueueMessage",
    "SignedIdentifier",
    "Queue",
    "CorsRule",
    "entry",
    "Container",
    "Blob",
    "BlobPrefix",
    "Block",
    "PageRange",
    "ClearRange",
    "Tag",
];
const DEPTH_MAX: usize = 64;

/// The fields of a JSON text; `None` if it is not JSON.
pub fn json(text: &str) -> Option<Vec<Field>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let mut fields = Vec::new();
    // serde_json bounds the nesting of what it reads, so this ends.
    json_value(&value, String::new(), &mut fields);
    Some(fields)
}

fn json_value(value: &Value, path: String, fields: &mut Vec<Field>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                json_value(member, path, fields);
            }
        }
        Value::Array(items) => {
            fields.push((format!("{path}.count"), items.len().to_string()));
            for (index, item) in items.iter().enumerate() {
                json_value(item, format!("{path}[{index}]"), fields);
            }
        }
        // A text and a number that look alike must differ.
        Value::String(text) => fields.push((path, format!("{text:?}"))),
        Value::Null | Value::Bool(_) | Value::Number(_) => fields.push((path, value.to_string())),
    }
}

/// The fields of an XML text; `None` if it is not XML.
pub fn xml(text: &str) -> Option<Vec<Field>> {
    let text = text.trim_start_matches('\u{feff}');
    if !text.trim_start().starts_with('<') {
        return None;
    }
    let mut reader = Reader::from_str(text);
    let mut walk = Walk::default();
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => walk.open(start.name().as_ref())?,
            Event::Empty(start) => {
                walk.open(start.name().as_ref())?;
                walk.close()?;
            }
            Event::End(_) => walk.close()?,
            Event::Text(text) => walk.text(&text)?,
            Event::GeneralRef(reference) => {
                let resolved = match reference.resolve_char_ref().ok()? {
                    Some(character) => character.to_string(),
                    None => quick_xml::escape::resolve_xml_entity(&reference)?.to_owned(),
                };
                walk.text(&resolved)?;
            }
            Event::Eof => return walk.finish(),
            Event::CData(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
        }
    }
}

/// Where in a document the reader is.
#[derive(Default)]
struct Walk {
    open: Vec<Element>,
    fields: Vec<Field>,
}

struct Element {
    path: String,
    text: String,
    has_children: bool,
    /// The list elements that it has had.
    items: Vec<String>,
}

impl Walk {
    fn open(&mut self, name: &str) -> Option<()> {
        let name = name.rsplit(':').next().unwrap_or(name);
        let parent_path = self.open.last().map(|parent| parent.path.clone());
        let mut path = parent_path.map_or(name.to_owned(), |path| format!("{path}.{name}"));
        if let Some(parent) = self.open.last_mut() {
            parent.has_children = true;
            if LIST_ELEMENTS.contains(&name) {
                let before = parent.items.iter().filter(|item| *item == name).count();
                path = format!("{path}[{before}]");
                parent.items.push(name.to_owned());
            }
        }
        self.open.push(Element { path, text: String::new(), has_children: false, items: Vec::new() });
        (self.open.len() <= DEPTH_MAX).then_some(())
    }

    fn text(&mut self, text: &str) -> Option<()> {
        match self.open.last_mut() {
            Some(element) => element.text.push_str(text),
            None if text.trim().is_empty() => {}
            None => return None,
        }
        Some(())
    }

    fn close(&mut self) -> Option<()> {
        let element = self.open.pop()?;
        let items = &element.items;
        if !items.is_empty() {
            self.fields.push((format!("{}.count", element.path), items.len().to_string()));
        }
        // Elements of a kind are counted on their own, and how kinds follow each other is a field of its own.
        if items.iter().any(|item| *item != items[0]) {
            self.fields.push((format!("{}.order", element.path), items.join(" ")));
        }
        if !element.has_children {
            self.fields.push((element.path, element.text));
        }
        Some(())
    }

    fn finish(self) -> Option<Vec<Field>> {
        (self.open.is_empty() && !self.fields.is_empty()).then_some(self.fields)
    }
}

/// One answer inside a batch answer.
pub struct Part {
    pub status: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// The answers inside a multipart body.
pub fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for piece in text.split("HTTP/1.1 ").skip(1) {
        let piece = piece.split("\n--").next().unwrap_or_default().replace("\r\n", "\n");
        let (head, body) = piece.split_once("\n\n").unwrap_or((&piece, ""));
        let mut lines = head.lines();
        let status = lines.next().unwrap_or_default().split(' ').next().unwrap_or_default().to_owned();
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
            .collect();
        parts.push(Part { status, headers, body: body.trim().to_owned() });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: Option<Vec<Field>>) -> String {
        let fields = fields.unwrap();
        fields.iter().map(|(path, value)| format!("{path}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn json_and_xml_become_paths() {
        assert_eq!(
            shown(json(r#"{"value":[{"A":1},{"A":"1"}]}"#)),
            r#"value.count=2 value[0].A=1 value[1].A="1""#
        );
        let text = "\u{feff}<?xml version=\"1.0\"?><L><Queue><N>a&amp;b</N></Queue><Queue /></L>";
        assert_eq!(shown(xml(text)), "L.Queue[0].N=a&b L.Queue[1]= L.count=2");
        let text = "<L><Blob><N>a</N></Blob><BlobPrefix><N>b</N></BlobPrefix><Blob><N>c</N></Blob></L>";
        let paths = "L.Blob[0].N=a L.BlobPrefix[0].N=b L.Blob[1].N=c L.count=3 L.order=Blob BlobPrefix Blob";
        assert_eq!(shown(xml(text)), paths);
        assert!(json("<a/>").is_none());
        assert!(xml("{}").is_none());
        assert!(xml("<a>").is_none());
    }

    #[test]
    fn answers_inside_a_batch_are_taken_apart() {
        let text = "--b\r\nContent-Type: x\r\n\r\n--c\r\n\r\nHTTP/1.1 204 No Content\r\nETag: e\r\n\r\n\r\n--c\r\n\
                    \r\nHTTP/1.1 409 Conflict\r\nA: b\r\n\r\n{\"x\":1}\r\n--c--\r\n--b--";
        let parts = parts(text);
        assert_eq!(parts.len(), 2);
        assert_eq!((parts[0].status.as_str(), parts[0].body.as_str()), ("204", ""));
        assert_eq!(parts[0].headers, [("ETag".to_owned(), "e".to_owned())]);
        assert_eq!((parts[1].status.as_str(), parts[1].body.as_str()), ("409", "{\"x\":1}"));
    }
}
