//! An account: where its services are, how requests to them are signed, and what they are sent with.
//!
//! All handles are cheap clones of one shared part, so connections and the retry budget are the account's.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use http::Uri;
use http::uri::{Authority, Scheme};
use tavola_auth::{DEVELOPMENT_ACCOUNT, DEVELOPMENT_KEY};
use tavola_model::{DateTime, StorageService};

use crate::error::{Error, Result};
use crate::retry::{Budget, RetrySettings};
use crate::transport::{CountingTransport, HyperTransport, Transport};

/// Gives a bearer token, fetched again when it is old.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// use std::sync::Arc;
/// use tavola_client::{Account, Credential, Endpoints, TokenSource};
/// let source: TokenSource = Arc::new(|| Box::pin(async { Ok("a token of the issuer".to_owned()) }));
/// let account = Account::new(&Endpoints::of_account("contoso"), Credential::Token(source))?;
/// # let _ = account;
/// # Ok(())
/// # }
/// ```
pub type TokenSource = Arc<dyn Fn() -> BoxFuture<'static, Result<String>> + Send + Sync>;

/// How requests are signed.
///
/// ```
/// use tavola_client::Credential;
/// let sas = Credential::Sas("sv=2019-02-02&sig=abc".into());
/// assert_eq!(format!("{sas:?}"), "Sas");
/// ```
#[derive(Clone)]
pub enum Credential {
    /// An account key.
    Key {
        /// The name of the account.
        account: String,
        /// One of its keys, in base64.
        key: String,
    },
    /// A shared access signature: the text behind `?`.
    Sas(String),
    /// A bearer token. `azure_identity` and others fit in here.
    Token(TokenSource),
}

/// Keys, signatures and tokens are not shown.
impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key { .. } => "Key",
            Self::Sas(_) => "Sas",
            Self::Token(_) => "Token",
        })
    }
}

/// The URLs of the services. Where the host does not name the account, the path does.
///
/// ```
/// let endpoints = tavola_client::Endpoints::of_account("contoso");
/// assert_eq!(endpoints.table, "https://contoso.table.core.windows.net");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The table service.
    pub table: String,
    /// The queue service.
    pub queue: String,
    /// The blob service.
    pub blob: String,
}

impl Endpoints {
    /// Those of an account on Azure.
    ///
    /// ```
    /// let endpoints = tavola_client::Endpoints::of_account("contoso");
    /// assert_eq!(endpoints.queue, "https://contoso.queue.core.windows.net");
    /// ```
    pub fn of_account(account: &str) -> Self {
        Self::with_suffix("https", account, "core.windows.net")
    }

    /// Those of the emulator, and of a server of our own with its default ports.
    ///
    /// ```
    /// let endpoints = tavola_client::Endpoints::development();
    /// assert_eq!(endpoints.table, "http://127.0.0.1:10002/devstoreaccount1");
    /// ```
    pub fn development() -> Self {
        let at = |port| format!("http://127.0.0.1:{port}/{DEVELOPMENT_ACCOUNT}");
        Self { table: at(10002), queue: at(10001), blob: at(10000) }
    }

    fn with_suffix(scheme: &str, account: &str, suffix: &str) -> Self {
        let at = |service| format!("{scheme}://{account}.{service}.{suffix}");
        Self { table: at("table"), queue: at("queue"), blob: at("blob") }
    }
}

/// One account: its services and one credential. Cheap to clone.
///
/// ```
/// # fn main() -> tavola_client::Result<()> {
/// let account = tavola_client::Account::from_connection_string("UseDevelopmentStorage=true")?;
/// let employees = account.table("Employees");
/// assert_eq!(employees.name(), "Employees");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Account {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Clone)]
pub(crate) struct Shared {
    table: Endpoint,
    queue: Endpoint,
    blob: Endpoint,
    pub(crate) signer: Signer,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) retry: RetrySettings,
    pub(crate) budget: Arc<Budget>,
}

/// A credential, ready to sign.
#[derive(Clone)]
pub(crate) enum Signer {
    Key(Box<tavola_auth::Account>),
    Sas(Arc<str>),
    Token(TokenSource),
}

/// A URL taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// Empty where the host names the account, else `/account`.
    pub(crate) path: String,
    /// All of it, with a slash at the end.
    pub(crate) base: String,
}

impl Endpoint {
    fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| Error::Account(format!("the endpoint {what} (endpoint={text})"));
        let uri: Uri = text.trim().parse().map_err(|_| bad("is no URL"))?;
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(bad("has no scheme or no host"));
        };
        if uri.query().is_some() {
            return Err(bad("has a query; a shared access signature is a credential"));
        }
        let path = uri.path().trim_end_matches('/').to_owned();
        let base = format!("{scheme}://{authority}{path}/");
        Ok(Self { scheme: scheme.clone(), authority: authority.clone(), path, base })
    }
}

impl Account {
    /// Reads a connection string: `UseDevelopmentStorage=true`, an account key, a shared access signature, explicit
    /// endpoints.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::Account;
    /// Account::from_connection_string("AccountName=contoso;AccountKey=a2V5;EndpointSuffix=core.windows.net")?;
    /// assert!(Account::from_connection_string("AccountName=contoso").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_connection_string(text: &str) -> Result<Self> {
        let fields = Fields::parse(text)?;
        if fields.get("UseDevelopmentStorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::development();
        }
        let name = fields.get("AccountName");
        let scheme = fields.get("DefaultEndpointsProtocol").unwrap_or("https");
        let suffix = fields.get("EndpointSuffix").unwrap_or("core.windows.net");
        let usual = name.map(|name| Endpoints::with_suffix(scheme, name, suffix));
        let endpoint = |field: &str, of: fn(&Endpoints) -> &String| {
            let told = fields
                .get(field)
                .map(str::to_owned)
                .or_else(|| usual.as_ref().map(|usual| of(usual).clone()));
            // A service that is not named cannot be used; it is only missed when it is.
            told.unwrap_or_else(|| "http://unnamed.invalid".to_owned())
        };
        let endpoints = Endpoints {
            table: endpoint("TableEndpoint", |usual| &usual.table),
            queue: endpoint("QueueEndpoint", |usual| &usual.queue),
            blob: endpoint("BlobEndpoint", |usual| &usual.blob),
        };
        let credential = match (fields.get("SharedAccessSignature"), name, fields.get("AccountKey")) {
            (Some(sas), _, None) => Credential::Sas(sas.to_owned()),
            (None, Some(account), Some(key)) => {
                Credential::Key { account: account.to_owned(), key: key.to_owned() }
            }
            _ => {
                let rule = "the connection string needs AccountName and AccountKey, or SharedAccessSignature";
                return Err(Error::Account(rule.to_owned()));
            }
        };
        Self::new(&endpoints, credential)
    }

    /// The well-known account of the emulator, on this machine.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// let account = tavola_client::Account::development()?;
    /// # let _ = account;
    /// # Ok(())
    /// # }
    /// ```
    pub fn development() -> Result<Self> {
        let (account, key) = (DEVELOPMENT_ACCOUNT.to_owned(), DEVELOPMENT_KEY.to_owned());
        Self::new(&Endpoints::development(), Credential::Key { account, key })
    }

    /// With endpoints and a credential.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, Credential, Endpoints};
    /// let sas = "sv=2019-02-02&ss=t&srt=sco&sp=rl&sig=abc";
    /// let account = Account::new(&Endpoints::of_account("contoso"), Credential::Sas(sas.into()))?;
    /// # let _ = account;
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(endpoints: &Endpoints, credential: Credential) -> Result<Self> {
        let signer = match credential {
            Credential::Key { account, key } => {
                let account = tavola_auth::Account::parse(&format!("{account}:{key}"));
                Signer::Key(Box::new(account.map_err(|error| Error::Account(error.to_string()))?))
            }
            Credential::Sas(text) => Signer::Sas(text.trim_start_matches('?').into()),
            Credential::Token(source) => Signer::Token(source),
        };
        let retry = RetrySettings::default();
        let shared = Shared {
            table: Endpoint::parse(&endpoints.table)?,
            queue: Endpoint::parse(&endpoints.queue)?,
            blob: Endpoint::parse(&endpoints.blob)?,
            signer,
            transport: Arc::new(HyperTransport::new()),
            budget: Arc::new(Budget::new(&retry)),
            retry,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The same account by another transport.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::testing::{FaultTransport, Fault};
    /// use tavola_client::{Account, HyperTransport};
    /// let faults = FaultTransport::new(HyperTransport::new());
    /// let account = Account::development()?.with_transport(faults);
    /// # let _ = (account, Fault::LoseAnswer);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_transport(self, transport: impl Transport) -> Self {
        self.changed(|shared| shared.transport = Arc::new(transport))
    }

    /// The same account with another way to retry, and a budget of its own.
    ///
    /// ```
    /// # fn main() -> tavola_client::Result<()> {
    /// use tavola_client::{Account, RetrySettings};
    /// let once = RetrySettings { tries_max: 1, ..RetrySettings::default() };
    /// let account = Account::development()?.with_retry(once);
    /// # let _ = account;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_retry(self, retry: RetrySettings) -> Self {
        self.changed(|shared| {
            shared.budget = Arc::new(Budget::new(&retry));
            shared.retry = retry;
        })
    }

    /// The same account, whose requests are counted, retries included.
    pub(crate) fn counted(&self, requests: &Arc<AtomicU64>) -> Self {
        let requests = Arc::clone(requests);
        self.clone().changed(|shared| {
            let inner = Arc::clone(&shared.transport);
            shared.transport = Arc::new(CountingTransport { inner, requests });
        })
    }

    fn changed(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::make_mut(&mut self.shared));
        self
    }

    pub(crate) fn endpoint(&self, service: StorageService) -> &Endpoint {
        match service {
            StorageService::Table => &self.shared.table,
            StorageService::Queue => &self.shared.queue,
            StorageService::Blob => &self.shared.blob,
        }
    }

    /// The key that signs, for whoever makes signatures for others.
    pub(crate) fn key(&self) -> Result<&tavola_auth::Account> {
        match &self.shared.signer {
            Signer::Key(account) => Ok(account),
            _ => Err(Error::Account("a shared access signature is made with an account key".to_owned())),
        }
    }
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account").field("table", &self.shared.table.base).finish_non_exhaustive()
    }
}

/// The time of this machine.
pub(crate) fn now() -> DateTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    DateTime::from_unix_ticks(u64::try_from(since.as_nanos() / 100).unwrap_or(u64::MAX))
}

/// The fields of a connection string; names compare without case.
struct Fields<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Fields<'a> {
    fn parse(text: &'a str) -> Result<Self> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let fields = parts.map(|part| {
            let (name, value) = part.split_once('=')?;
            Some((name.trim(), value.trim()))
        });
        // The text may hold a key, so the message repeats nothing of it.
        let broken = || Error::Account("the connection string is not made of Name=Value parts".to_owned());
        fields.collect::<Option<Vec<_>>>().map(Self).ok_or_else(broken)
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match Account::from_connection_string(text) {
            Ok(account) => {
                let signer = match &account.shared.signer {
                    Signer::Key(account) => account.name().to_string(),
                    Signer::Sas(sas) => format!("?{sas}"),
                    Signer::Token(_) => "token".to_owned(),
                };
                format!("{} {} {signer}", account.shared.table.base, account.shared.queue.base)
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn every_form_of_a_connection_string_is_read() {
        check(
            "UseDevelopmentStorage=true",
            "http://127.0.0.1:10002/devstoreaccount1/ http://127.0.0.1:10001/devstoreaccount1/ devstoreaccount1",
        );
        check(
            "DefaultEndpointsProtocol=https;AccountName=contoso;AccountKey=a2V5;EndpointSuffix=core.windows.net",
            "https://contoso.table.core.windows.net/ https://contoso.queue.core.windows.net/ contoso",
        );
        check(
            " accountname=a12 ; accountkey=a2V5== ;TableEndpoint=http://localhost:1/a12/;QueueEndpoint=http://q/ ",
            "account cannot be used: account key is missing or not base64 (account=a12)",
        );
        check(
            "TableEndpoint=http://localhost:1/a12/;SharedAccessSignature=?sv=1&sig=a%3D",
            "http://localhost:1/a12/ http://unnamed.invalid/ ?sv=1&sig=a%3D",
        );
    }

    #[test]
    fn a_text_that_opens_nothing_is_refused_without_being_repeated() {
        check("a", "account cannot be used: the connection string is not made of Name=Value parts");
        let rule = "account cannot be used: the connection string needs AccountName and AccountKey, or \
                    SharedAccessSignature";
        check("AccountName=contoso", rule);
        check("AccountKey=a2V5", rule);
        check(
            "AccountName=contoso;AccountKey=a2V5;TableEndpoint=nowhere",
            "account cannot be used: the endpoint has no scheme or no host (endpoint=nowhere)",
        );
    }
}
