//! Sends messages to a collector: one POST each, within a few seconds, not repeated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

const SEND_TIME_MAX: Duration = Duration::from_secs(5);

/// Where messages go.
pub(super) struct Collector {
    agent: ureq::Agent,
    endpoint: String,
    /// The last message was not taken.
    is_failing: AtomicBool,
}

impl Collector {
    /// A collector at a URL such as `http://127.0.0.1:4318`.
    pub fn new(endpoint: &str) -> anyhow::Result<Self> {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let uri: hyper::Uri = endpoint.parse().with_context(|| format!("--otlp-endpoint {endpoint}"))?;
        if !matches!(uri.scheme_str(), Some("http")) || uri.host().is_none() {
            bail!(
                "--otlp-endpoint is http://HOST:PORT (value={endpoint}); put a collector beside the server"
            );
        }
        let config = ureq::Agent::config_builder().timeout_global(Some(SEND_TIME_MAX)).build();
        Ok(Self { agent: config.into(), endpoint, is_failing: AtomicBool::new(false) })
    }

    pub fn send_spans(&self, message: ExportTraceServiceRequest) {
        self.send("/v1/traces", &message);
    }

    pub fn send_metrics(&self, message: ExportMetricsServiceRequest) {
        self.send("/v1/metrics", &message);
    }

    fn send(&self, path: &str, message: &impl Message) {
        let request = self.agent.post(format!("{}{path}", self.endpoint));
        let sent = request.header("content-type", "application/x-protobuf").send(message.encode_to_vec());
        match sent {
            Ok(_) => {
                if self.is_failing.swap(false, Ordering::Relaxed) {
                    tracing::warn!(endpoint = self.endpoint, "the OpenTelemetry collector answers again");
                }
            }
            Err(error) => {
                if !self.is_failing.swap(true, Ordering::Relaxed) {
                    let endpoint = &self.endpoint;
                    tracing::warn!(endpoint, %error, "the OpenTelemetry collector is unreachable; traces and metrics are dropped");
                }
            }
        }
    }
}
