//! From the socket to the head of a request. Its body is left where it is until the route says how to take it.

use std::net::IpAddr;

use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method, Uri, header};
use tavola_model::{ErrorCode, StorageService};

/// The head of a request.
pub(crate) struct Received {
    /// The verb on the wire.
    pub method: Method,
    /// The target on the request line.
    pub uri: Uri,
    /// All headers.
    pub headers: HeaderMap,
    /// Names of metadata headers as they were written, where their case means something.
    pub metadata_names: Vec<String>,
    /// Where it comes from.
    pub origin: Origin,
    /// What is wrong with it whatever it asks for.
    pub refusal: Option<ErrorCode>,
}

/// Where a connection comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// The other end.
    pub peer: IpAddr,
    /// Its port.
    pub peer_port: u16,
    /// Over TLS.
    pub secure: bool,
    /// Which service it reached.
    pub service: StorageService,
    /// It comes over a connection on which another server has found this one.
    pub is_server: bool,
}

impl Received {
    /// Reads the head of a request.
    pub fn new(parts: Parts, origin: Origin, metadata_names: Vec<String>) -> Self {
        let mut headers = parts.headers;
        let refusal = settle_host(&mut headers, parts.uri.authority(), origin).err();
        Self { method: parts.method, uri: parts.uri, headers, metadata_names, origin, refusal }
    }

    /// The raw path.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The raw query, without `?`.
    pub fn query(&self) -> &str {
        self.uri.query().unwrap_or_default()
    }
}

/// Bytes of a request line and headers, as far as they carry something: what is between them is left out.
pub(crate) fn head_bytes(parts: &Parts) -> usize {
    let target = parts.uri.path().len() + parts.uri.query().map_or(0, |query| query.len() + 1);
    let headers = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    parts.method.as_str().len() + target + headers.sum::<usize>()
}

/// Makes sure that a request has one host. A request whose line holds an absolute URI names it there; a `Host` that
/// says something else, or is there twice, would mean one host to us and another to whoever passed the request on
/// (<https://www.rfc-editor.org/rfc/rfc9112#section-3.2>).
fn settle_host(
    headers: &mut HeaderMap,
    authority: Option<&Authority>,
    origin: Origin,
) -> Result<(), ErrorCode> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let given = hosts.next();
    if hosts.next().is_some() {
        return Err(ErrorCode::InvalidHeaderValue);
    }
    let Some(authority) = authority else { return Ok(()) };
    let default_port = if origin.secure { 443 } else { 80 };
    match given {
        None => {
            let host = authority.as_str().parse().map_err(|_| ErrorCode::InvalidHeaderValue)?;
            headers.insert(header::HOST, host);
            Ok(())
        }
        Some(host) => {
            let host: Authority =
                host.to_str().ok().and_then(|host| host.parse().ok()).ok_or(ErrorCode::InvalidHeaderValue)?;
            let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
            let is_same =
                host.host().eq_ignore_ascii_case(authority.host()) && port(&host) == port(authority);
            if is_same { Ok(()) } else { Err(ErrorCode::InvalidHeaderValue) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(target: &str, hosts: &[&'static str], expected: Result<&str, ErrorCode>) {
        let mut request = http::Request::get(target);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let origin = Origin {
            peer: IpAddr::from([127, 0, 0, 1]),
            peer_port: 50_000,
            secure: false,
            service: StorageService::Table,
            is_server: false,
        };
        let received = Received::new(parts, origin, Vec::new());
        let host = received.headers.get(header::HOST).map(|host| host.to_str().unwrap()).unwrap_or_default();
        let shown = received.refusal.map_or(Ok(host), Err);
        assert_eq!(shown, expected, "{target} {hosts:?}");
    }

    #[test]
    fn two_hosts_or_a_host_that_contradicts_the_target_are_refused() {
        let refused = Err(ErrorCode::InvalidHeaderValue);
        check("/a", &["127.0.0.1"], Ok("127.0.0.1"));
        check("/a", &["127.0.0.1", "127.0.0.1"], refused);
        check("/a", &["127.0.0.1", "other.table.x"], refused);
        check("http://evil.example/a", &["127.0.0.1"], refused);
        check("http://a.table.x:1/a", &["a.table.x:2"], refused);
        check("http://A.table.x/a", &["a.table.x:80"], Ok("a.table.x:80"));
        check("http://a.table.x/a", &[], Ok("a.table.x"));
        check("/a", &[], Ok(""));
    }
}
