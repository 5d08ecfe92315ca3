//! The traffic of every table, in bounded statistics.

mod figures;

use std::path::PathBuf;
use std::sync::Arc;

use tavola_model::DateTime;
use tavola_telemetry::{AccessRecord, RecordSink};

pub use figures::{Figures, PlanMix, Second, TableFigures};

/// How traffic is kept.
#[derive(Clone, Debug, Default)]
pub struct TrafficSettings {
    /// The file that keeps it across restarts; `None` keeps it in memory only.
    pub file: Option<PathBuf>,
}

/// What was asked of every table.
pub struct Traffic {
    _settings: TrafficSettings,
}

impl Traffic {
    /// The traffic that the file of the settings holds; none if there is no file, or it is damaged.
    pub fn new(settings: TrafficSettings) -> Arc<Self> {
        Arc::new(Self { _settings: settings })
    }

    /// The last minute, and the rates of each table.
    pub fn figures(&self, _now: DateTime) -> Figures {
        Figures::default()
    }
}

impl RecordSink for Traffic {
    fn observe(&self, _records: &[AccessRecord]) {}
}
