//! What the server has counted, as Prometheus reads it (OpenMetrics text).
//!
//! Figures are read when they are asked for. Every family is made from a plain reading by one function, so the list of
//! all families, which `docs/metrics.md` has, is what those functions give for empty readings (`catalogue`). Names are
//! those of Prometheus' conventions: base units, `_total` for counters, the standard names for the process. Label sets
//! are bounded by what the server knows, never by what a client sends.

mod engine;
mod family;
mod process;
mod requests;

use std::sync::Arc;

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tavola_engine_cql::CqlMetrics;
use tavola_engine_local::LocalMetrics;
use tavola_frontend::{Affinity, AffinityMetrics, Frontend, FrontendMetrics};
use tavola_telemetry::{Recorder, RequestCounts};

pub use family::{Family, Kind, Series, Value};

use crate::analytics::Analytics;
use crate::store::Store;
use engine::ContentFigures;
use family::Families;
use process::ProcessReading;

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Where figures come from.
#[derive(Clone)]
pub struct MetricSources {
    /// Where rows are kept.
    pub store: Store,
    /// What there is to say of other servers on it.
    pub affinity: Option<Arc<Affinity>>,
    /// What was counted of requests.
    pub recorder: Arc<Recorder>,
    /// What is open.
    pub frontend: Arc<Frontend>,
    /// What is logged.
    pub analytics: Arc<Analytics>,
}

/// Every family of figures, read now.
pub fn families(sources: &MetricSources) -> Vec<Family> {
    let mut families = general();
    families.extend(requests::families(&sources.recorder.counts().read()));
    families.extend(requests::of_recorder(sources.recorder.one_in(), sources.recorder.dropped()));
    families.extend(requests::of_analytics(sources.analytics.left_out()));
    families.extend(requests::of_frontend(&sources.frontend.metrics()));
    families.extend(of_store(&sources.store));
    if let Some(affinity) = &sources.affinity {
        families.extend(engine::affinity(&affinity.metrics()));
    }
    families.extend(process::families(&ProcessReading::now()));
    families
}

/// The families of a store.
pub fn of_store(store: &Store) -> Vec<Family> {
    match store {
        Store::Local(store) => engine::local(&store.metrics(), ContentFigures::read(store).as_ref()),
        Store::Cluster { engine, .. } => engine::cluster(&engine.metrics()),
    }
}

/// Every family that there can be, without figures.
pub fn catalogue() -> Vec<Family> {
    let mut families = general();
    families.extend(requests::families(&RequestCounts::default().read()));
    families.extend(requests::of_recorder(1, 0));
    families.extend(requests::of_analytics(0));
    families.extend(requests::of_frontend(&FrontendMetrics::default()));
    families.extend(engine::local(&LocalMetrics::default(), Some(&ContentFigures::default())));
    families.extend(engine::cluster(&CqlMetrics { directory_entries: Some(0), ..CqlMetrics::default() }));
    families.extend(engine::affinity(&AffinityMetrics::default()));
    families.extend(process::families(&ProcessReading::default()));
    families
}

/// The text of all families.
pub fn text(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut out = String::new();
    encode(&mut out, &registry).expect("a string takes every text");
    out
}

fn general() -> Vec<Family> {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    vec![
        Family::gauge("tavola_up", "The process answers", 1),
        Family::labelled(
            "tavola_build_info",
            Kind::Gauge,
            "The version that runs, in a label; always 1",
            &["version"],
            vec![Series { labels: version, value: Value::Whole(1) }],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_and_are_there_once() {
        let families = catalogue();
        let mut names = BTreeSet::new();
        for family in &families {
            let name = family.full_name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("tavola_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(name.bytes().all(is_plain), "{name}");
            for word in ["_ms", "_millis", "_kb", "_mb", "_minutes"] {
                assert!(!name.contains(word), "{name}: base units only");
            }
            assert!(!family.help.ends_with('.') && family.help.len() > 10, "{name}");
        }
    }

    #[test]
    fn the_text_has_every_family_with_its_type() {
        let text = text(catalogue());
        for family in catalogue() {
            let line = format!("# TYPE {} {}\n", family.name, family.kind.as_str());
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        assert!(text.contains("tavola_engine_block_reads_total{source=\"cache\"} 0\n"), "{text}");
        assert!(text.contains("tavola_engine_sync_seconds_bucket{le=\"0.0005\"} 0\n"), "{text}");
    }
}
