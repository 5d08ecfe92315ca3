//! The recorded exchanges with the blob service, read once.

use std::sync::OnceLock;

use bytes::Bytes;
use http::HeaderValue;
use tavola_model::{Address, Command, Query, ServiceError};
use tavola_protocol::Reply;
use tavola_protocol::blob::{self, BlobRequest, BlobRoute};

pub use crate::recorded::Exchange;

/// Reads the recordings; none where they are absent. Left out is a request whose head or query the recorder did not keep.
pub fn load() -> &'static [Exchange] {
    static EXCHANGES: OnceLock<Vec<Exchange>> = OnceLock::new();
    EXCHANGES.get_or_init(|| {
        let exchanges = crate::recorded::read("blobs").unwrap_or_default().into_iter();
        let is_kept = |exchange: &Exchange| {
            !exchange.query.contains('*') && exchange.request_headers.contains_key("x-ms-version")
        };
        exchanges.filter(is_kept).map(with_length).collect()
    })
}

/// Recorders leave the length out; clients do not.
fn with_length(mut exchange: Exchange) -> Exchange {
    let length = HeaderValue::from(exchange.sent().len());
    exchange.request_headers.entry(http::header::CONTENT_LENGTH).or_insert(length);
    exchange
}

impl Exchange {
    /// The body of the request.
    pub fn sent(&self) -> Bytes {
        Bytes::from(self.request_body.clone().unwrap_or_default())
    }

    /// A request header.
    pub fn asked(&self, name: &str) -> Option<&str> {
        self.request_headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub fn address(&self) -> Address<'_> {
        self.address_of("storagename")
    }

    pub fn route(&self) -> Result<BlobRoute, ServiceError> {
        let query = Query::parse(&self.query).unwrap();
        blob::route(&self.method, &self.address(), &query, &self.request_headers)
    }

    /// The command, as the server decodes it.
    pub fn decode(&self) -> Result<Command, ServiceError> {
        let (query, route) = (Query::parse(&self.query).unwrap(), self.route()?);
        let request = BlobRequest {
            version: &self.reply().version,
            query: &query,
            headers: &self.request_headers,
            metadata_names: &[],
            body: &self.sent(),
        };
        blob::decode(route, &request)
    }

    /// How the request is answered.
    pub fn reply(&self) -> Reply {
        let id = self.header("x-ms-request-id").unwrap_or_default().to_owned();
        let address = self.address();
        Reply::of(&self.method, &self.request_headers, Some(&address), id, true)
    }
}
