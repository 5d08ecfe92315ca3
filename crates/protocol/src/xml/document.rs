//! A small XML tree for small documents, with bounded depth and size.

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use tavola_model::{ErrorCode, ServiceError};

const NESTING_MAX: usize = 8;

/// How a document is read.
#[derive(Clone, Copy)]
struct Rules {
    /// How many elements it may have.
    elements_max: usize,
    /// Whether it may hold references to characters that XML 1.0 does not have.
    any_character: bool,
}

/// What a client sends: small and exact.
const REQUEST: Rules = Rules { elements_max: 512, any_character: false };
/// What a service answers: as long as the caller was willing to read.
const ANSWER: Rules = Rules { elements_max: usize::MAX, any_character: true };

/// An element with its children or its text.
#[derive(Debug, Default)]
pub struct Element {
    /// Name without prefix.
    pub name: String,
    /// Child elements, in order.
    pub children: Vec<Element>,
    /// Character data directly inside.
    pub text: String,
    /// It says that its text is percent-encoded (`Encoded="true"`), as names do that XML cannot hold.
    pub is_encoded: bool,
    /// Where the name of what follows it stands, which is where the service finds fault with it.
    after: Spot,
    /// Where the name in its end tag stands, which is where the service misses a child.
    end: Spot,
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

/// `InvalidXmlDocument` for what a well-formed document says.
pub fn invalid() -> ServiceError {
    invalid_at(Spot::default(), "")
}

/// `InvalidXmlDocument` for what this element says.
pub fn invalid_element(element: &Element, reason: &'static str) -> ServiceError {
    invalid_at(element.after, reason)
}

/// `InvalidXmlDocument` for a child that this element lacks.
pub fn invalid_lack(element: &Element, reason: &'static str) -> ServiceError {
    invalid_at(element.end, reason)
}

fn invalid_at(spot: Spot, reason: &'static str) -> ServiceError {
    ServiceError::new(ErrorCode::InvalidXmlDocument)
        .with_detail("LineNumber", spot.line.to_string())
        .with_detail("LinePosition", spot.column.to_string())
        .with_detail("Reason", reason)
}

/// A place in a document, both counted from one; zeros for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spot {
    line: usize,
    column: usize,
}

/// Follows the reader through the text, so that a place is known when it is asked for.
struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    spot: Spot,
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, offset: 0, spot: Spot { line: 1, column: 1 } }
    }

    /// The place at an offset that is not before the last one asked for. Columns count UTF-16 units.
    fn at(&mut self, offset: usize) -> Spot {
        for character in self.text.get(self.offset..offset).unwrap_or_default().chars() {
            if character == '\n' {
                self.spot = Spot { line: self.spot.line + 1, column: 1 };
            } else {
                self.spot.column += character.len_utf16();
            }
        }
        self.offset = self.offset.max(offset);
        self.spot
    }

    /// The place of the name of the tag that begins at an offset, or of the offset itself.
    fn name_at(&mut self, offset: usize) -> Spot {
        let rest = self.text.get(offset..).unwrap_or_default();
        let skipped = if rest.starts_with("</") { 2 } else { usize::from(rest.starts_with('<')) };
        let Spot { line, column } = self.at(offset);
        Spot { line, column: column + skipped }
    }
}

/// Reads a document; its root must have the given name.
pub fn parse(body: &[u8], root: &str) -> Result<Element, ServiceError> {
    parse_by(body, root, REQUEST)
}

/// Reads a document of up to so many elements; its root must have the given name.
pub fn parse_long(body: &[u8], root: &str, elements_max: usize) -> Result<Element, ServiceError> {
    parse_by(body, root, Rules { elements_max, ..REQUEST })
}

fn parse_by(body: &[u8], root: &str, rules: Rules) -> Result<Element, ServiceError> {
    let text = std::str::from_utf8(body).map_err(|_| invalid())?;
    let text = text.trim_start_matches('\u{FEFF}');
    let mut reader = Reader::from_str(text);
    let mut cursor = Cursor::new(text);
    match parse_elements(&mut reader, &mut cursor, rules) {
        Ok(Some(element)) if element.name == root => Ok(element),
        Ok(_) => Err(invalid()),
        Err(Malformed { offset }) => Err(invalid_at(cursor.at(offset), "Error parsing Xml content")),
    }
}

/// Reads a document that a service has sent; `None` if it is none.
pub fn read_answer(text: &str) -> Option<Element> {
    let text = text.trim_start_matches('\u{FEFF}');
    parse_elements(&mut Reader::from_str(text), &mut Cursor::new(text), ANSWER).ok().flatten()
}

/// The text is no XML from this offset on.
struct Malformed {
    offset: usize,
}

/// The only element of the document, or `None` if there is another number of them.
fn parse_elements(
    reader: &mut Reader<&[u8]>,
    cursor: &mut Cursor<'_>,
    rules: Rules,
) -> Result<Option<Element>, Malformed> {
    let mut open: Vec<Element> = vec![Element::default()];
    let mut count = 0;
    loop {
        let start = position(reader.buffer_position());
        let malformed = || Malformed { offset: start };
        let event = reader.read_event();
        let event = event.map_err(|_| Malformed { offset: position(reader.error_position()) })?;
        let end = position(reader.buffer_position());
        let piece = cursor.text.get(start..end).unwrap_or_default();
        if let Some(forbidden) = piece.find(is_forbidden).filter(|_| !rules.any_character) {
            return Err(Malformed { offset: start + forbidden });
        }
        let innermost = open.last_mut().ok_or_else(malformed)?;
        match event {
            Event::Start(tag) => {
                let is_encoded = tag.try_get_attribute("Encoded").ok().flatten();
                let is_encoded =
                    is_encoded.is_some_and(|attribute| attribute.value.eq_ignore_ascii_case("true"));
                let name = tag.local_name().as_ref().to_owned();
                open.push(Element { name, is_encoded, ..Element::default() });
                count += 1;
            }
            Event::Empty(tag) => {
                let name = tag.local_name().as_ref().to_owned();
                let after = cursor.name_at(end);
                innermost.children.push(Element { name, after, end: after, ..Element::default() });
                count += 1;
            }
            Event::End(_) => {
                let mut element = open.pop().ok_or_else(malformed)?;
                element.end = cursor.name_at(start);
                element.after = cursor.name_at(end);
                open.last_mut().ok_or_else(malformed)?.children.push(element);
            }
            Event::Text(text) => innermost.text.push_str(&text.xml10_content()),
            Event::CData(text) => innermost.text.push_str(&text.xml10_content()),
            Event::GeneralRef(reference) => {
                let piece = resolve_reference(&reference).ok_or_else(malformed)?;
                if !rules.any_character && piece.contains(is_forbidden) {
                    return Err(malformed());
                }
                innermost.text.push_str(&piece);
            }
            Event::DocType(_) => return Err(malformed()),
            Event::Eof if open.len() == 1 => break,
            Event::Eof => return Err(malformed()),
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
        if count > rules.elements_max || open.len() > NESTING_MAX {
            return Err(malformed());
        }
    }
    let mut document = open.pop().unwrap_or_default();
    Ok(document.children.pop().filter(|_| document.children.is_empty()))
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Characters that XML 1.0 cannot hold in any form.
pub fn is_forbidden(character: char) -> bool {
    matches!(
        character,
        '\u{0}'..='\u{8}' | '\u{B}' | '\u{C}' | '\u{E}'..='\u{1F}' | '\u{FFFE}' | '\u{FFFF}'
    )
}

/// The text of `&amp;`, `&#65;` and the like; entities of a document's own are not known here.
pub fn resolve_reference(reference: &BytesRef<'_>) -> Option<String> {
    // The library refuses the reference of NUL, which our own writer puts where a text holds one.
    if matches!(&**reference, "#0" | "#x0") {
        return Some("\0".to_owned());
    }
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
    let mut rest = text;
    while let Some(at) = rest.bytes().position(may_need_escape) {
        let (plain, from) = rest.split_at(at);
        out.push_str(plain);
        let mut characters = from.chars();
        if let Some(character) = characters.next() {
            escape_character(character, out);
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
}

/// Whether a character that begins with this byte may be one that is not written as it is.
fn may_need_escape(byte: u8) -> bool {
    // U+FFFE and U+FFFF begin with EF.
    byte < b' ' || matches!(byte, b'&' | b'<' | b'>' | 0xEF)
}

fn escape_character(character: char, out: &mut String) {
    match character {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        // XML 1.0 has no way to write these; the writer of the service puts references nevertheless.
        forbidden if is_forbidden(forbidden) => {
            out.push_str(&format!("&#x{:X};", u32::from(forbidden)));
        }
        '\r' => out.push_str("&#xD;"),
        other => out.push(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_as_it_is_becomes_a_reference_wherever_it_stands() {
        for (text, expected) in [
            ("", ""),
            ("plain \"text\" 'as' it is", "plain \"text\" 'as' it is"),
            ("&", "&amp;"),
            ("a<b>&c", "a&lt;b&gt;&amp;c"),
            ("\t\n\r.", "\t\n&#xD;."),
            ("\u{0}x\u{1F}", "&#x0;x&#x1F;"),
            ("é\u{FFFD}\u{FFFE}ﷺ\u{FFFF}😀", "é\u{FFFD}&#xFFFE;ﷺ&#xFFFF;😀"),
        ] {
            let mut out = String::new();
            escape(text, &mut out);
            assert_eq!(out, expected, "{text:?}");
        }
    }
}
