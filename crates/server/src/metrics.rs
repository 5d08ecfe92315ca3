//! What the server has counted, as Prometheus reads it (OpenMetrics text). `docs/cluster.md` lists the names.

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::health::Watched;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Every figure, each with what it means. Figures are read when they are asked for, so the registry lives as long as
/// one answer.
pub fn text(watched: &Watched) -> String {
    let mut registry = Registry::default();
    let mut gauge = |name: &str, help: &str, value: u64| {
        registry.register(name, help, ConstGauge::new(value));
    };
    gauge("tavola_up", "The process answers", 1);
    for (name, help, value) in watched.store.gauges() {
        gauge(name, help, value);
    }
    let forwarding = watched.affinity.as_ref().map(|affinity| affinity.metrics());
    if let Some(metrics) = &forwarding {
        gauge("tavola_members", "Servers on the cluster that are up", metrics.members);
    }
    // The crate adds `_total` to the name of a counter.
    let mut counter = |name: &str, help: &str, value: u64| {
        let name = name.strip_suffix("_total").unwrap_or(name);
        registry.register(name, help, ConstCounter::new(value));
    };
    for (name, help, value) in watched.store.counters() {
        counter(name, help, value);
    }
    if let Some(metrics) = &forwarding {
        let forwarded = "Writes that the server which owns their partition answered";
        counter("tavola_forwarded_total", forwarded, metrics.forwarded);
        let failures = "Writes that could not be forwarded to the server which owns their partition";
        counter("tavola_forward_failures_total", failures, metrics.failures);
    }
    let mut out = String::new();
    encode(&mut out, &registry).expect("a string takes every text");
    out
}
