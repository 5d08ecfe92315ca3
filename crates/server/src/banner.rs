//! What a person reads when the server is up, and what a program reads in the ready file.

use std::net::SocketAddr;

use anyhow::Context;
use serde_json::json;
use tavola_auth::{Accounts, DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_console::ServiceUrl;
use tavola_frontend::Listener;
use tavola_model::StorageService;

/// Where a service can be reached.
pub struct Endpoint {
    service: StorageService,
    address: SocketAddr,
    secure: bool,
}

impl Endpoint {
    /// The endpoint of a listener.
    pub fn of(listener: &Listener) -> anyhow::Result<Self> {
        let address = listener.socket.local_addr().context("cannot read the address of a listener")?;
        Ok(Self { service: listener.service, address, secure: listener.tls.is_some() })
    }

    /// As the console shows it.
    pub fn service_url(&self) -> ServiceUrl {
        let scheme = if self.secure { "https" } else { "http" };
        ServiceUrl {
            service: self.service,
            base: format!("{scheme}://{}", self.address),
            is_secure: self.secure,
        }
    }

    fn name(&self) -> &'static str {
        match self.service {
            StorageService::Blob => "blob",
            StorageService::Queue => "queue",
            StorageService::Table => "table",
        }
    }

    fn url(&self, account: &str) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}/{account}", self.address)
    }
}

/// A server that is up.
pub struct Banner<'a> {
    /// Its endpoints.
    pub endpoints: Vec<Endpoint>,
    /// Its accounts.
    pub accounts: &'a Accounts,
    /// Where its rows are.
    pub location: String,
    /// Whether that goes away with it.
    pub ephemeral: bool,
    /// What there is to say about the development account.
    pub development: Option<&'static str>,
    /// How it stands with other servers on its store, where there can be any.
    pub servers: Option<String>,
    /// The console: what a person is told, and its address if it listens.
    pub console: Option<(String, Option<String>)>,
    /// How long it took to start.
    pub seconds: f64,
}

impl Banner<'_> {
    /// The text for standard output. The key of an account is shown only where everybody knows it.
    pub fn text(&self) -> String {
        let names = self.account_names();
        let mut out = format!("Tavola {} is ready ({:.1} s)\n\n", env!("CARGO_PKG_VERSION"), self.seconds);
        for name in &names {
            for endpoint in &self.endpoints {
                out.push_str(&format!("  {:<8} {}\n", endpoint.name(), endpoint.url(name)));
            }
        }
        if let Some((console, _)) = &self.console {
            out.push_str(&format!("  console  {console}\n"));
        }
        let kept = if self.ephemeral { " (removed at exit)" } else { "" };
        out.push_str(&format!("  data     {}{kept}\n", self.location));
        if let Some(note) = self.development {
            out.push_str(&format!("  development account: {note}\n"));
        }
        if let Some(servers) = &self.servers {
            out.push_str(&format!("  others   {servers}\n"));
        }
        out.push_str("\nConnection string:\n");
        for name in &names {
            out.push_str(&format!("  {}\n", self.connection_string(name)));
        }
        out.push_str("\nStop with Ctrl+C.\n");
        out
    }

    /// Endpoints by service, under the first account; those over TLS as `table-tls` and the like.
    pub fn ready_json(&self) -> serde_json::Value {
        let first = self.account_names().first().copied().unwrap_or_default();
        let mut ready = serde_json::Map::new();
        for endpoint in &self.endpoints {
            let suffix = if endpoint.secure { "-tls" } else { "" };
            ready.insert(format!("{}{suffix}", endpoint.name()), json!(endpoint.url(first)));
        }
        if let Some((_, Some(url))) = &self.console {
            ready.insert("console".into(), json!(url));
        }
        ready.insert("pid".into(), json!(std::process::id()));
        ready.into()
    }

    fn account_names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.accounts.iter().map(|account| account.name().as_str()).collect();
        names.sort_unstable();
        names
    }

    /// One string with every service; a service with both a plain and a TLS port is shown with the plain one.
    fn connection_string(&self, name: &str) -> String {
        let public =
            self.accounts.iter().any(|account| account.name().as_str() == name && account.has_public_key());
        let key = if name == DEVELOPMENT_ACCOUNT && public { DEVELOPMENT_KEY } else { "<its key>" };
        let scheme = if self.endpoints.iter().any(|endpoint| !endpoint.secure) { "http" } else { "https" };
        let mut out = format!("DefaultEndpointsProtocol={scheme};AccountName={name};AccountKey={key};");
        for (service, word) in [
            (StorageService::Blob, "Blob"),
            (StorageService::Queue, "Queue"),
            (StorageService::Table, "Table"),
        ] {
            let mut of_service = self.endpoints.iter().filter(|endpoint| endpoint.service == service);
            if let Some(endpoint) =
                of_service.clone().find(|endpoint| !endpoint.secure).or_else(|| of_service.next())
            {
                out.push_str(&format!("{word}Endpoint={};", endpoint.url(name)));
            }
        }
        out
    }
}
