//! Someone with a token and no key: sends exactly what it is told, and the token with it.

use std::collections::BTreeMap;

use http::Method;
use serde_json::Value;
use tavola_testkit::{Connection, Request, Response};

pub const ACCOUNT: &str = "devstoreaccount1";

/// PartitionKey and RowKey.
pub type Key = (String, String);

/// A request below the account, written out.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: &'static str,
    /// Path and query below the account, as they go over the wire; the token is added to the query.
    pub target: String,
    pub headers: Vec<(&'static str, String)>,
    pub body: String,
}

impl Ask {
    pub fn new(method: &'static str, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), headers: Vec::new(), body: String::new() }
    }

    pub fn get(target: impl Into<String>) -> Self {
        Self::new("GET", target)
    }

    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    pub fn with_json(self, body: impl Into<String>) -> Self {
        let mut ask = self.with_header("Content-Type", "application/json");
        ask.body = body.into();
        ask
    }

    /// The same through POST, with the verb in a header.
    pub fn tunnelled(self) -> Self {
        let verb = self.method;
        Self { method: "POST", ..self.with_header("X-HTTP-Method", verb) }
    }
}

pub struct Guest {
    endpoint: String,
    host: String,
    connection: Connection,
}

impl Guest {
    pub fn of(endpoint: &str) -> Self {
        let host = endpoint.trim_start_matches("http://").split('/').next().unwrap().to_owned();
        Self { endpoint: endpoint.to_owned(), host, connection: Connection::open(endpoint).unwrap() }
    }

    /// Sends with a token, to the account or to its secondary.
    pub fn send(&mut self, account: &str, ask: &Ask, token: &str) -> Response {
        let separator = if ask.target.contains('?') { '&' } else { '?' };
        let mut bytes = format!(
            "{} /{account}{}{separator}{token} HTTP/1.1\r\nHost: {}\r\nx-ms-version: 2019-02-02\r\n\
             Accept: application/json;odata=nometadata\r\nDataServiceVersion: 3.0\r\nContent-Length: {}\r\n",
            ask.method,
            ask.target,
            self.host,
            ask.body.len()
        );
        for (name, value) in &ask.headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str("\r\n");
        bytes.push_str(&ask.body);
        let method = Method::from_bytes(ask.method.as_bytes()).unwrap();
        if let Ok(response) = self.connection.send_raw(bytes.as_bytes(), &method) {
            return response;
        }
        // The request before may have been one after which the server hangs up.
        self.connection = Connection::open(&self.endpoint).unwrap();
        self.connection.send_raw(bytes.as_bytes(), &method).unwrap()
    }

    /// Sends to the account itself and gives status and code.
    pub fn ask(&mut self, ask: &Ask, token: &str) -> (u16, String) {
        let response = self.send(ACCOUNT, ask, token);
        (response.status, code(&response.text()))
    }
}

/// The code of an error body, or nothing.
pub fn code(text: &str) -> String {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let of_json = json.and_then(|json| json["odata.error"]["code"].as_str().map(str::to_owned));
    let of_xml = || {
        Some(text.split_once("code>").or_else(|| text.split_once("Code>"))?.1.split('<').next()?.to_owned())
    };
    of_json.or_else(of_xml).unwrap_or_default()
}

/// Every entity in a text, in order: of a page, of a single read, or of the parts of a batch.
pub fn entities(text: &str) -> Vec<(Key, i64)> {
    let mut found = Vec::new();
    let mut waiting: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    while let Some(value) = waiting.pop() {
        if let (Some(partition), Some(row)) = (value["PartitionKey"].as_str(), value["RowKey"].as_str()) {
            let n = value["n"].as_i64().unwrap_or_default();
            found.push(((partition.to_owned(), row.to_owned()), n));
        }
        if let Some(list) = value["value"].as_array() {
            waiting.extend(list.iter().rev().cloned());
        }
    }
    found
}

/// The holder of the key, who sees everything.
pub struct Owner {
    connection: Connection,
}

impl Owner {
    pub fn of(endpoint: &str) -> Self {
        Self { connection: Connection::open(endpoint).unwrap() }
    }

    pub fn send(&mut self, request: &Request) -> Response {
        self.connection.send(request).unwrap()
    }

    pub fn create_table(&mut self, table: &str) {
        let body = format!(r#"{{"TableName":"{table}"}}"#);
        let response = self.send(&Request::new(Method::POST, "/Tables").with_json(body));
        assert_eq!(response.status, 201, "{}", response.text());
    }

    pub fn insert(&mut self, table: &str, key: &Key, n: i64) {
        let response =
            self.send(&Request::new(Method::POST, format!("/{table}")).with_json(entity_json(key, n)));
        assert_eq!(response.status, 201, "{}", response.text());
    }

    /// All entities that a filter picks, in their order.
    pub fn query(&mut self, table: &str, filter: Option<&str>) -> Vec<(Key, i64)> {
        let query = filter.map(|filter| format!("?$filter={}", encode(filter))).unwrap_or_default();
        let response = self.send(&Request::get(format!("/{table}(){query}")));
        assert_eq!(response.status, 200, "{}", response.text());
        entities(&response.text())
    }

    pub fn scan(&mut self, table: &str) -> BTreeMap<Key, i64> {
        self.query(table, None).into_iter().collect()
    }
}

pub fn entity_json((partition, row): &Key, n: i64) -> String {
    serde_json::json!({"PartitionKey": partition, "RowKey": row, "n": n}).to_string()
}

/// Percent-encodes all but letters and digits.
pub fn encode(text: &str) -> String {
    text.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
            },
        )
        .collect()
}
