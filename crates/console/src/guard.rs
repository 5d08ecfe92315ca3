//! Whose requests are looked at: the checks that need no session.
//!
//! - The `Host` must be this machine by name or loopback address, or a name that the settings list. A page of another
//!   site that has its name resolve to this machine (DNS rebinding) sends its own name, and is refused.
//! - A browser says where a request comes from (`Sec-Fetch-Site`, `Origin`); another site is refused.
//! - Every answer forbids scripts, styles and frames that are not ours.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use hyper::{HeaderMap, Method};

/// The header that carries the token of a session. No form and no link of another site can send it.
pub(crate) const CSRF_HEADER: &str = "x-tavola-csrf";

/// What a page may load: what this listener serves, and nothing else.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
/// What stored data may do if a browser opens it: nothing.
const DATA_POLICY: &str =
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox";

/// Why a request is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardRefusal {
    /// It addresses another host.
    Host,
    /// It comes from another site.
    Site,
}

/// Checks a request before anything else is done with it.
pub(crate) fn check(method: &Method, headers: &HeaderMap, names: &[String]) -> Result<(), GuardRefusal> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(GuardRefusal::Host) };
    let host = host.to_str().map_err(|_| GuardRefusal::Host)?;
    if !is_ours(host_name(host), names) {
        return Err(GuardRefusal::Host);
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match text("sec-fetch-site") {
        None | Some("same-origin") => {}
        // Somebody typed the address, or followed a link to the start page.
        Some("none" | "cross-site" | "same-site") if is_navigation(method, headers) => {}
        Some(_) => return Err(GuardRefusal::Site),
    }
    match headers.get(ORIGIN) {
        None => Ok(()),
        Some(origin) => {
            let origin = origin.to_str().unwrap_or_default();
            let named = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if named.is_some_and(|named| named.eq_ignore_ascii_case(host)) {
                Ok(())
            } else {
                Err(GuardRefusal::Site)
            }
        }
    }
}

fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET
        && headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate")
        && headers.get("sec-fetch-dest").is_some_and(|dest| dest == "document")
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_ours(name: &str, names: &[String]) -> bool {
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        || names.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// What an answer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerContent {
    /// Something of ours.
    Ours,
    /// Something that clients have stored.
    Stored,
}

/// Adds what every answer says.
pub(crate) fn protect(headers: &mut HeaderMap, content: AnswerContent) {
    let policy = match content {
        AnswerContent::Ours => PAGE_POLICY,
        AnswerContent::Stored => DATA_POLICY,
    };
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(head: &[(&'static str, &'static str)]) -> Result<(), GuardRefusal> {
        let mut headers = HeaderMap::new();
        for (name, value) in head {
            headers.append(*name, HeaderValue::from_static(value));
        }
        check(&Method::GET, &headers, &["console.example".to_owned()])
    }

    #[test]
    fn only_this_machine_and_listed_names_are_hosts() {
        for host in [
            "localhost",
            "localhost:10003",
            "127.0.0.1:10003",
            "127.9.9.9",
            "[::1]:10003",
            "Console.Example:80",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(check(&Method::GET, &headers, &["console.example".to_owned()]), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
            "[::2]",
            "localhost:1:2",
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(check(&Method::GET, &headers, &[]), Err(GuardRefusal::Host), "{host}");
        }
        assert_eq!(checked(&[]), Err(GuardRefusal::Host));
        assert_eq!(checked(&[("host", "localhost"), ("host", "localhost")]), Err(GuardRefusal::Host));
    }

    #[test]
    fn another_site_may_link_here_and_do_nothing_else() {
        let host = ("host", "localhost:1");
        assert_eq!(checked(&[host, ("origin", "http://localhost:1")]), Ok(()));
        assert_eq!(checked(&[host, ("sec-fetch-site", "same-origin")]), Ok(()));
        for origin in ["http://localhost:2", "http://evil.example", "null", "http://localhost:1.evil.example"]
        {
            assert_eq!(checked(&[host, ("origin", origin)]), Err(GuardRefusal::Site), "{origin}");
        }
        let from = |site, mode, dest| {
            checked(&[host, ("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)])
        };
        assert_eq!(from("cross-site", "navigate", "document"), Ok(()));
        assert_eq!(from("none", "navigate", "document"), Ok(()));
        assert_eq!(from("cross-site", "navigate", "iframe"), Err(GuardRefusal::Site));
        assert_eq!(from("cross-site", "no-cors", "image"), Err(GuardRefusal::Site));
        assert_eq!(from("same-site", "cors", "empty"), Err(GuardRefusal::Site));
    }
}
