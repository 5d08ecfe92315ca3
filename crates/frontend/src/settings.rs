//! Bounds of what clients can take up. Each is a setting; the defaults suit one machine with a few hundred
//! megabytes to spare.

use std::time::Duration;

/// What a listener allows.
#[derive(Clone, Debug)]
pub struct FrontendSettings {
    /// Connections open at once; a further one takes the place of one that is idle, or waits.
    pub connections_max: usize,
    /// Bytes of a request line and its headers together.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// How long a TLS handshake may take.
    pub handshake_time_max: Duration,
    /// How long a connection may be idle between requests.
    pub idle_time_max: Duration,
    /// How long the head of a request may take from its first byte to its last.
    pub head_time_max: Duration,
    /// How long a client may take to send a body, and how long it may take nothing of an answer.
    pub body_time_max: Duration,
    /// Bytes a second that a body must bring, on average, once it has been coming for a few seconds; none if 0.
    pub body_rate_min: usize,
    /// Bytes of larger bodies that all requests together may hold, and as many again of larger answers. Further bodies
    /// wait, then their clients are told to retry; pages end early.
    pub inflight_bytes_max: usize,
    /// How long requests under way may take to finish once the server is told to stop.
    pub drain_time_max: Duration,
}

impl Default for FrontendSettings {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_bytes_max: 64 * 1024,
            headers_max: 100,
            handshake_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(120),
            head_time_max: Duration::from_secs(15),
            body_time_max: Duration::from_secs(120),
            body_rate_min: 1024,
            inflight_bytes_max: 64 * 1024 * 1024,
            drain_time_max: Duration::from_secs(10),
        }
    }
}
