//! Elements and errors as queues and blobs write them.

use tavola_model::ServiceError;

use super::PROLOGUE;
use super::document::escape;

/// The body of an error. `message` has the request id and the time already.
pub fn write_error(error: &ServiceError, message: &str) -> String {
    let mut out = PROLOGUE.to_owned();
    out.push_str("<Error>");
    push("Code", error.code.as_str(), &mut out);
    push("Message", message, &mut out);
    error.details.iter().for_each(|(name, text)| push(name, text, &mut out));
    out.push_str("</Error>");
    out
}

/// `<name>text</name>`, or `<name />` for none.
#[inline]
pub fn push(name: &str, text: &str, out: &mut String) {
    if text.is_empty() {
        return push_markup(name, text, out);
    }
    push_start(name, out);
    escape(text, out);
    push_end(name, out);
}

/// The same for text that is markup already, or has nothing to escape.
#[inline]
pub fn push_markup(name: &str, markup: &str, out: &mut String) {
    if markup.is_empty() {
        out.push('<');
        out.push_str(name);
        out.push_str(" />");
        return;
    }
    push_start(name, out);
    out.push_str(markup);
    push_end(name, out);
}

/// `<name>`
#[inline]
pub fn push_start(name: &str, out: &mut String) {
    out.push('<');
    out.push_str(name);
    out.push('>');
}

/// `</name>`
#[inline]
pub fn push_end(name: &str, out: &mut String) {
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}
