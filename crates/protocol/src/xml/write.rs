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
pub fn push(name: &str, text: &str, out: &mut String) {
    let mut escaped = String::with_capacity(text.len());
    escape(text, &mut escaped);
    push_markup(name, &escaped, out);
}

/// The same for text that is markup already.
pub fn push_markup(name: &str, markup: &str, out: &mut String) {
    if markup.is_empty() {
        out.push_str(&format!("<{name} />"));
    } else {
        out.push_str(&format!("<{name}>{markup}</{name}>"));
    }
}
