//! Where programs connect: endpoints and connection strings of an account.
//!
//! The rule: a key is in here only where everybody knows it. The server keeps no other key in readable form.

use serde_json::{Value, json};
use tavola_auth::{Account, DEVELOPMENT_KEY};
use tavola_model::StorageService;

/// Where a service listens.
#[derive(Clone, Debug)]
pub struct ServiceUrl {
    /// Which service.
    pub service: StorageService,
    /// `http://127.0.0.1:10002`, without the account.
    pub base: String,
    /// Over TLS.
    pub is_secure: bool,
}

/// How to connect to an account.
pub(crate) fn connect(account: &Account, urls: &[ServiceUrl]) -> Value {
    let name = account.name().as_str();
    let of = |service: StorageService| {
        let mut found = urls.iter().filter(|url| url.service == service);
        found.clone().find(|url| !url.is_secure).or_else(|| found.next())
    };
    let endpoints: Vec<Value> =
        [("Table", StorageService::Table), ("Queue", StorageService::Queue), ("Blob", StorageService::Blob)]
            .into_iter()
            .filter_map(|(word, service)| {
                of(service).map(|url| json!({ "service": word, "url": format!("{}/{name}", url.base) }))
            })
            .collect();
    let key = account.has_public_key().then_some(DEVELOPMENT_KEY);
    let scheme = if urls.iter().any(|url| !url.is_secure) { "http" } else { "https" };
    json!({ "account": name, "scheme": scheme, "endpoints": endpoints, "key": key })
}
