//! The recorded exchanges, read once.

use std::sync::OnceLock;

use tavola_model::{Address, Query};
use tavola_protocol::table::{Format, MetadataLevel, Preference};
use tavola_protocol::{ApiVersion, Form, Reply};

pub use crate::recorded::Exchange;

/// The account that requests go to; recorders put names into bodies that no account can have.
pub const ACCOUNT: &str = "recorded";

/// The recordings, if this checkout has them beside it.
pub enum Corpus {
    Here(&'static [Exchange]),
    Absent,
}

/// Reads the recordings.
pub fn load() -> Corpus {
    static EXCHANGES: OnceLock<Option<Vec<Exchange>>> = OnceLock::new();
    match EXCHANGES.get_or_init(|| crate::recorded::read("tables")) {
        Some(exchanges) => Corpus::Here(exchanges),
        None => Corpus::Absent,
    }
}

impl Exchange {
    /// The content type as the service writes it; some recorders put spaces into it.
    pub fn content_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        if value.starts_with("multipart") { value.to_owned() } else { value.replace(' ', "") }
    }

    /// How the recorded answer is to be written, with what only the answer tells: base, account, version, id.
    pub fn reply(&self, base: &str, account: &str) -> Reply {
        let address = self.address();
        let id = self.header("x-ms-request-id").unwrap_or_default().to_owned();
        let mut reply = Reply::of(&self.method, &self.request_headers, Some(&address), id, true);
        reply.base = base.to_owned();
        reply.account = account.into();
        // Recorders that keep no request headers leave the version and the form to the answer.
        if let Some(version) = self.header("x-ms-version").and_then(|text| ApiVersion::parse(text).ok()) {
            reply.version = version;
        }
        reply
    }

    /// The form of the recorded answer before its request was routed.
    pub fn form(&self) -> Form {
        let mut form = Form::of(&self.request_headers, &self.query(), &self.reply("", "").version);
        let content_type = self.content_type();
        let names_form = self.request_headers.contains_key("accept") || self.query.contains("$format");
        if !names_form && !content_type.starts_with("multipart") {
            form.style.format = format_of(&content_type);
        }
        form.style.prefer = form.style.prefer.or(match self.header("preference-applied") {
            Some("return-content") => Some(Preference::ReturnContent),
            Some("return-no-content") => Some(Preference::ReturnNoContent),
            _ => None,
        });
        form
    }

    /// The query of the request.
    pub fn query(&self) -> Query<'_> {
        Query::parse(&self.query).unwrap_or_default()
    }

    /// Where the request went.
    pub fn address(&self) -> Address<'_> {
        self.address_of(ACCOUNT)
    }
}

fn format_of(content_type: &str) -> Format {
    if content_type.contains("nometadata") {
        Format::Json(MetadataLevel::None)
    } else if content_type.contains("fullmetadata") {
        Format::Json(MetadataLevel::Full)
    } else if content_type.contains("json") {
        Format::Json(MetadataLevel::Minimal)
    } else {
        Format::Atom
    }
}
