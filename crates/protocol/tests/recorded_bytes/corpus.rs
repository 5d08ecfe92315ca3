//! The recorded exchanges, read once.

use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tavola_model::{AccountName, Address, AddressStyle, Query};
use tavola_protocol::table::{Format, MetadataLevel, Preference};
use tavola_protocol::{ApiVersion, Form, Reply};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/tables.jsonl");

/// The account that requests go to; recorders put names into bodies that no account can have.
pub const ACCOUNT: &str = "recorded";

/// The recordings, if this checkout has them beside it.
pub enum Corpus {
    Here(&'static [Exchange]),
    Absent,
}

/// One recorded request and its answer.
pub struct Exchange {
    /// The session and the request, for messages.
    pub name: String,
    pub method: Method,
    /// Path and query as they were sent.
    pub path: String,
    pub query: String,
    /// Request headers; some recorders keep none.
    pub request_headers: HeaderMap,
    pub request_body: Option<String>,
    pub secondary: bool,
    pub status: u16,
    /// Response headers with the case that the recorder gave them.
    pub headers: Vec<(String, String)>,
    /// The body as it was on the wire; `None` where the recorder rewrote it or there was none.
    pub body: Option<String>,
    /// There was no body.
    pub empty: bool,
}

/// Reads the recordings. Where they are absent says so; with `TAVOLA_REQUIRE_ALL` they must be there.
pub fn load() -> Corpus {
    static EXCHANGES: OnceLock<Option<Vec<Exchange>>> = OnceLock::new();
    match EXCHANGES.get_or_init(|| std::fs::read_to_string(PATH).ok().map(|text| parse(&text))) {
        Some(exchanges) => Corpus::Here(exchanges),
        None => {
            let is_required = std::env::var_os("TAVOLA_REQUIRE_ALL").is_some();
            assert!(!is_required, "the recordings are not at {PATH}");
            println!("NOT COMPARED: the recordings are not at {PATH}");
            Corpus::Absent
        }
    }
}

fn parse(text: &str) -> Vec<Exchange> {
    let sessions = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    sessions
        .flat_map(|session| {
            let name = session["name"].as_str().unwrap().to_owned();
            let exchanges = session["exchanges"].as_array().unwrap().clone();
            exchanges.into_iter().filter_map(move |exchange| Exchange::parse(&name, &exchange))
        })
        .collect()
}

impl Exchange {
    /// `None` for a request that was aborted or whose method the recorder spoiled.
    fn parse(session: &str, exchange: &Value) -> Option<Self> {
        let (request, response) = (&exchange["request"], &exchange["response"]);
        let target = request["path"].as_str()?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let method = request["method"].as_str()?;
        let raw = |message: &Value| {
            let is_raw = message.get("body_form").is_none_or(Value::is_null);
            message["body"].as_str().filter(|_| is_raw).map(str::to_owned)
        };
        let mut request_headers = HeaderMap::new();
        for (name, value) in pairs(&request["headers"]) {
            request_headers
                .append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(&value).ok()?);
        }
        Some(Self {
            name: format!("{session}: {method} {target}"),
            method: Method::from_bytes(method.as_bytes()).ok()?,
            path: path.to_owned(),
            query: query.to_owned(),
            request_headers,
            request_body: raw(request),
            secondary: exchange["secondary"] == true,
            status: u16::try_from(response["status"].as_u64()?).ok().filter(|status| *status > 0)?,
            headers: pairs(&response["headers"]),
            body: raw(response).filter(|body| !body.is_empty()),
            empty: response["body"].as_str().is_none_or(str::is_empty),
        })
    }

    /// A response header, by any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

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
        reply.account = account.to_owned();
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
        Address {
            account: AccountName::parse(ACCOUNT).unwrap(),
            style: AddressStyle::Host,
            secondary: self.secondary,
            path: &self.path,
        }
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

/// Names and values; a header that came more than once is joined by some recorders and listed by others.
fn pairs(headers: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::Array(values) => values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        value => value.as_str().unwrap_or_default().to_owned(),
    };
    headers
        .as_object()
        .map(|map| map.iter().map(|(name, value)| (name.clone(), text(value))).collect())
        .unwrap_or_default()
}
