//! Comparing an encoded answer with the recorded one, and counting.

use tavola_protocol::Response;

use crate::corpus::Exchange;

/// Headers that belong to the connection, to browsers, or to the recorder.
const NOT_COMPARED: &[&str] = &[
    "Access-Control-Allow-Origin",
    "Access-Control-Expose-Headers",
    "Connection",
    "Content-Length",
    "Keep-Alive",
    "Strict-Transport-Security",
    "Transfer-Encoding",
    "Vary",
    "x-ms-client-request-id",
];

/// Headers whose values are compared, too.
const VALUES_COMPARED: &[&str] = &["DataServiceId", "ETag", "Location", "Preference-Applied"];

/// What was compared and what differed.
pub struct Tally {
    kind: &'static str,
    floor: usize,
    bodies: usize,
    heads: usize,
    differences: Vec<String>,
}

impl Tally {
    /// Nothing compared yet; at least `floor` answers must be.
    pub fn new(kind: &'static str, floor: usize) -> Self {
        Self { kind, floor, bodies: 0, heads: 0, differences: Vec::new() }
    }

    /// Compares status, body, and header names.
    pub fn compare(&mut self, exchange: &Exchange, response: &Response) {
        self.bodies += 1;
        let name = &exchange.name;
        if response.status.as_u16() != exchange.status {
            self.differences.push(format!("{name}: status {} not {}", response.status, exchange.status));
        }
        let recorded = exchange.body.as_deref().unwrap_or_default();
        let ours = String::from_utf8_lossy(&response.body);
        if ours != recorded {
            self.differences.push(format!("{name}: {}", first_difference(recorded, &ours)));
        }
        for header in VALUES_COMPARED {
            let theirs = exchange.header(header).map(unspoiled);
            let ours = response.header(header).map(unspoiled);
            if theirs != ours {
                self.differences.push(format!("{name}: {header} {theirs:?} not {ours:?}"));
            }
        }
        if keeps_case(exchange) {
            self.heads += 1;
            self.compare_names(exchange, response);
        }
    }

    fn compare_names(&mut self, exchange: &Exchange, response: &Response) {
        let is_compared = |name: &&str| !NOT_COMPARED.iter().any(|other| other.eq_ignore_ascii_case(name));
        let mut recorded: Vec<&str> =
            exchange.headers.iter().map(|(name, _)| name.as_str()).filter(is_compared).collect();
        let mut ours: Vec<&str> =
            response.headers.iter().map(|(name, _)| *name).filter(is_compared).collect();
        recorded.sort_unstable();
        ours.sort_unstable();
        if recorded != ours {
            self.differences.push(format!("{}: recorded {recorded:?}\n  ours {ours:?}", exchange.name));
        }
        let content_type = response.header("content-type").unwrap_or_default();
        // Some recorders blank the boundary in the header and leave it in the body.
        let blanked = |recorded: &str| {
            recorded.starts_with("multipart") && {
                let boundary = recorded.rsplit('=').next().unwrap_or_default();
                !exchange.body.as_deref().unwrap_or_default().contains(boundary)
            }
        };
        if exchange.content_type() != content_type && !blanked(&exchange.content_type()) {
            let recorded = exchange.content_type();
            self.differences.push(format!("{}: {recorded} not {content_type}", exchange.name));
        }
    }

    /// Says how many were compared; fails if any differed or too few were.
    pub fn finish(self) {
        let Self { kind, floor, bodies, heads, differences } = self;
        println!("{kind}: {bodies} answers compared, {heads} of them with the case of their header names");
        let shown: Vec<_> = differences.iter().take(20).map(String::as_str).collect();
        assert!(
            differences.is_empty(),
            "{} differences in {bodies}:\n{}",
            differences.len(),
            shown.join("\n")
        );
        assert!(bodies >= floor, "{kind}: only {bodies} compared, expected {floor}");
    }
}

/// Recorders that fold or rewrite names tell nothing about case: all lower, or `X-Ms-Request-Id`.
fn keeps_case(exchange: &Exchange) -> bool {
    let has = |wanted: &str| exchange.headers.iter().any(|(name, _)| name == wanted);
    let cased = has("Content-Type") || has("Cache-Control") || has("Content-Length");
    cased && has("x-ms-request-id") && has("Server") && has("Date")
}

/// A value without what recorders spoil: the host of a link, the quotes of an ETag.
fn unspoiled(value: &str) -> String {
    value.rsplit("net/").next().unwrap_or(value).replace('"', "")
}

fn first_difference(recorded: &str, ours: &str) -> String {
    let same = recorded.bytes().zip(ours.bytes()).take_while(|(left, right)| left == right).count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let from = same.saturating_sub(60);
        String::from_utf8_lossy(&bytes[from..bytes.len().min(same + 80)]).into_owned()
    };
    format!("differs at byte {same}\n  recorded {:?}\n  ours     {:?}", around(recorded), around(ours))
}
