//! Bounds of what clients can take up. Each is a setting; the defaults suit one machine with a few hundred
//! megabytes to spare.

use std::time::Duration;

/// What a listener allows.
#[derive(Clone, Debug)]
pub struct FrontendSettings {
    /// Connections open at once; more wait to be accepted.
    pub connections_max: usize,
    /// Bytes of a request line and its headers together.
    pub head_bytes_max: usize,
    /// Headers of a request.
    pub headers_max: usize,
    /// How long a connection may be idle, or take to send the head of a request.
    pub head_time_max: Duration,
    /// How long a client may take to send a body.
    pub body_time_max: Duration,
    /// Bytes of larger bodies that all requests together may hold; further ones wait, then are told to retry.
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
            head_time_max: Duration::from_secs(120),
            body_time_max: Duration::from_secs(60),
            inflight_bytes_max: 64 * 1024 * 1024,
            drain_time_max: Duration::from_secs(10),
        }
    }
}
