//! What only Storage Analytics wants to know of a request: some for sums, more for a line of a log. It is gathered only
//! where somebody keeps them.

use std::net::SocketAddr;

/// What is summed up beyond the record.
#[derive(Clone, Debug)]
pub struct RequestDetail {
    /// How the client showed who it is.
    pub authentication: Authentication,
    /// What kind of access it was.
    pub access: AccessKind,
    /// Bytes of its head.
    pub request_head_bytes: u64,
    /// Bytes of the head of its answer.
    pub response_head_bytes: u64,
    /// What only a log says.
    pub logged: Option<Box<LoggedFields>>,
}

/// What a log of requests says beyond that.
#[derive(Clone, Debug)]
pub struct LoggedFields {
    /// The URL, without the signature of a token.
    pub url: Box<str>,
    /// The path that names what was asked for, with the account.
    pub object_key: Box<str>,
    /// Where it came from.
    pub peer: SocketAddr,
    /// The version that it asked for.
    pub version: Option<Box<str>>,
    /// The length of its body as it was announced.
    pub content_length: Option<u64>,
    /// The sum of its body as it was announced.
    pub content_md5: Option<Box<str>>,
    /// The ETag of the answer.
    pub etag: Option<Box<str>>,
    /// When what it asked for was changed last, as the answer says.
    pub last_modified: Option<Box<str>>,
    /// Its conditions, `Name=value` each, with semicolons between.
    pub conditions: Box<str>,
    /// The program that sent it.
    pub user_agent: Option<Box<str>>,
    /// The page that sent it.
    pub referrer: Option<Box<str>>,
    /// The address of what it copies.
    pub copy_source: Option<Box<str>>,
}

/// How a client shows who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// By a signature with the account's key.
    Key,
    /// By a shared access signature.
    Sas,
    /// By a bearer token.
    Bearer,
    /// Not at all.
    Anonymous,
}

/// Kinds of access, as logging is switched on for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the service's own words")]
pub enum AccessKind {
    Read,
    Write,
    Delete,
}
