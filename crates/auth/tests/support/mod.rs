//! A request to hold against `authenticate` and `authorize`, with everything about it changeable.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its own part and may stop where it stands")]

use http::{HeaderMap, HeaderName, Method};
use tavola_auth::{
    Account, Accounts, Caller, RequestHead, Scheme, SignedRequest, authenticate, sign_request,
};
use tavola_model::{Address, DateTime, ErrorCode, Query, ServiceError, StorageService};

pub const NOW: &str = "2026-06-01T12:00:00Z";
pub const KEYS: &str = "acct:Zmlyc3Qga2V5:c2Vjb25kIGtleQ==";

pub fn now() -> DateTime {
    DateTime::parse(NOW).unwrap()
}

pub fn later(seconds: u64) -> DateTime {
    now().plus_seconds(seconds).unwrap()
}

pub fn earlier(seconds: u64) -> DateTime {
    DateTime::from_ticks(now().ticks() - seconds * 10_000_000).unwrap()
}

pub fn account() -> Account {
    Account::parse(KEYS).unwrap()
}

#[derive(Clone, Debug)]
pub struct Request {
    pub service: StorageService,
    pub method: Method,
    pub host: String,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub secure: bool,
    pub peer: std::net::IpAddr,
}

impl Request {
    pub fn get(path: &str) -> Self {
        Self {
            service: StorageService::Table,
            method: Method::GET,
            host: "127.0.0.1:10002".into(),
            path: path.into(),
            query: String::new(),
            headers: HeaderMap::new(),
            secure: false,
            peer: [127, 0, 0, 1].into(),
        }
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), value.parse().unwrap());
        self
    }

    pub fn with_query(mut self, query: &str) -> Self {
        self.query = query.into();
        self
    }

    pub fn signed(self, scheme: Scheme) -> Self {
        let path = self.path.clone();
        self.signed_over(scheme, &account(), &path)
    }

    pub fn signed_over(self, scheme: Scheme, account: &Account, path: &str) -> Self {
        let query = Query::parse(&self.query).unwrap();
        let request = SignedRequest { method: &self.method, path, query: &query, headers: &self.headers };
        let value = sign_request(account, self.service, scheme, &request).unwrap();
        self.with_header("authorization", &value)
    }

    pub fn authenticate(&self) -> Result<Caller, ErrorCode> {
        self.authenticate_telling().map_err(|error| error.code)
    }

    /// The same with all that a refusal tells.
    pub fn authenticate_telling(&self) -> Result<Caller, ServiceError> {
        let accounts = Accounts::new(vec![account(), Account::parse("other:b3RoZXI=").unwrap()]).unwrap();
        let address = Address::parse(&self.host, &self.path).ok_or(ErrorCode::InvalidUri)?;
        let query = Query::parse(&self.query).ok_or(ErrorCode::InvalidUri)?;
        let head = RequestHead {
            method: &self.method,
            path: &self.path,
            query: &query,
            headers: &self.headers,
            address: &address,
            secure: self.secure,
            peer: self.peer,
        };
        authenticate(&accounts, self.service, &head, now())
    }

    pub fn outcome(&self) -> String {
        match self.authenticate() {
            Ok(caller) if caller.has_credentials() || self.method == Method::OPTIONS => "ok".to_owned(),
            Ok(_) => "nobody".to_owned(),
            Err(code) => code.as_str().to_owned(),
        }
    }
}
