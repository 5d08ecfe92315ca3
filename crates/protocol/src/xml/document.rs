//! A small XML tree for small documents, with bounded depth and size.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use tavola_model::{ErrorCode, ServiceError};

const ELEMENTS_MAX: usize = 512;
const NESTING_MAX: usize = 8;

/// An element with its children or its text.
#[derive(Debug, Default)]
pub struct Element {
    /// Name without prefix.
    pub name: String,
    /// Child elements, in order.
    pub children: Vec<Element>,
    /// Character data directly inside.
    pub text: String,
}

impl Element {
    /// The first child with this name.
    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the first child with this name, without white space around it.
    pub fn child_text(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim())
    }
}

/// `InvalidXmlDocument`.
pub fn invalid() -> ServiceError {
    ErrorCode::InvalidXmlDocument.into()
}

/// Reads a document; its root must have the given name.
pub fn parse(body: &[u8], root: &str) -> Result<Element, ServiceError> {
    let text = std::str::from_utf8(body).map_err(|_| invalid())?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{FEFF}'));
    let mut open: Vec<Element> = vec![Element::default()];
    let mut count = 0;
    loop {
        let event = reader.read_event().map_err(|_| invalid())?;
        match event {
            Event::Start(start) => {
                open.push(Element { name: start.local_name().as_ref().to_owned(), ..Element::default() });
                count += 1;
            }
            Event::Empty(start) => {
                let element = Element { name: start.local_name().as_ref().to_owned(), ..Element::default() };
                innermost(&mut open)?.children.push(element);
                count += 1;
            }
            Event::End(_) => {
                let element = open.pop().ok_or_else(invalid)?;
                innermost(&mut open)?.children.push(element);
            }
            Event::Text(text) => innermost(&mut open)?.text.push_str(&text.xml10_content()),
            Event::CData(text) => innermost(&mut open)?.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let piece = resolve_reference(&reference).ok_or_else(invalid)?;
                innermost(&mut open)?.text.push_str(&piece);
            }
            Event::DocType(_) => return Err(invalid()),
            Event::Eof => break,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
        if count > ELEMENTS_MAX || open.len() > NESTING_MAX {
            return Err(invalid());
        }
    }
    let mut document = open.pop().filter(|_| open.is_empty()).ok_or_else(invalid)?;
    match (document.children.pop(), document.children.is_empty()) {
        (Some(element), true) if element.name == root => Ok(element),
        _ => Err(invalid()),
    }
}

fn innermost(open: &mut [Element]) -> Result<&mut Element, ServiceError> {
    open.last_mut().ok_or_else(invalid)
}

/// The text of `&amp;`, `&#65;` and the like; entities of a document's own are not known here.
pub fn resolve_reference(reference: &BytesRef<'_>) -> Option<String> {
    if let Some(character) = reference.resolve_char_ref().ok()? {
        return Some(character.to_string());
    }
    let text = match &**reference {
        "amp" => "&",
        "lt" => "<",
        "gt" => ">",
        "quot" => "\"",
        "apos" => "'",
        _ => return None,
    };
    Some(text.to_owned())
}

/// Writes the value of an attribute, in double quotes.
pub fn escape_attribute(text: &str, out: &mut String) {
    let mut pieces = text.split('"');
    escape(pieces.next().unwrap_or_default(), out);
    for piece in pieces {
        out.push_str("&quot;");
        escape(piece, out);
    }
}

/// Writes text with the characters escaped that XML needs between elements; quotes stay as they are.
pub fn escape(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML 1.0 has no way to write these; the writer of the service puts references nevertheless.
            '\u{0}'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}' => {
                out.push_str(&format!("&#x{:X};", u32::from(character)));
            }
            '\r' => out.push_str("&#xD;"),
            other => out.push(other),
        }
    }
}
