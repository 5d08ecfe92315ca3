//! A family of figures: a name, what it means, and a figure for each set of labels.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use tavola_telemetry::HistogramReading;

/// All figures of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// The name, for a counter without `_total`.
    pub name: &'static str,
    /// The name as it is written.
    pub full_name: &'static str,
    /// What kind of figure it is.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The figures.
    pub series: Vec<Series>,
}

/// Kinds of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only goes up, until a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size.
    Histogram,
}

/// One figure with its labels.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name and value of each label.
    pub labels: Vec<(&'static str, String)>,
    /// The figure.
    pub value: Value,
}

/// A figure.
#[derive(Clone, Debug)]
pub enum Value {
    /// A whole number.
    Whole(u64),
    /// A fraction, of seconds for example.
    Fraction(f64),
    /// Counts by size.
    Histogram {
        /// The largest value of each bucket; one more bucket follows that has none.
        bounds: Vec<f64>,
        /// Values in each bucket, not cumulative.
        counts: Vec<u64>,
        /// The sum of all values.
        sum: f64,
    },
}

impl Kind {
    /// Its name in the text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

impl Value {
    /// A histogram of nanoseconds, in seconds.
    pub fn seconds(reading: &HistogramReading) -> Self {
        Self::scaled(reading, NANOS_PER_SECOND)
    }

    /// A histogram of whole numbers.
    pub fn numbers(reading: &HistogramReading) -> Self {
        Self::scaled(reading, 1.0)
    }

    #[expect(clippy::cast_precision_loss, reason = "figures, not amounts to rely on")]
    fn scaled(reading: &HistogramReading, unit: f64) -> Self {
        Self::Histogram {
            bounds: reading.bounds.iter().map(|bound| *bound as f64 / unit).collect(),
            counts: reading.counts.clone(),
            sum: reading.sum as f64 / unit,
        }
    }
}

const NANOS_PER_SECOND: f64 = 1e9;

/// Nanoseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "figures, not amounts to rely on")]
pub fn seconds(nanos: u64) -> Value {
    Value::Fraction(nanos as f64 / NANOS_PER_SECOND)
}

impl Family {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::single(name, Kind::Counter, help, Value::Whole(value))
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Self {
        Self::single(name, Kind::Gauge, help, Value::Whole(value))
    }

    /// A family of one figure.
    pub fn single(name: &'static str, kind: Kind, help: &'static str, value: Value) -> Self {
        Self::labelled(name, kind, help, &[], vec![Series { labels: Vec::new(), value }])
    }

    /// A family with labels.
    pub fn labelled(
        name: &'static str,
        kind: Kind,
        help: &'static str,
        labels: &'static [&'static str],
        series: Vec<Series>,
    ) -> Self {
        let full_name = name;
        let name = name.strip_suffix("_total").unwrap_or(name);
        Self { name, full_name, kind, help, labels, series }
    }
}

/// Families on their way into the text.
#[derive(Debug)]
pub(super) struct Families(pub Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        for family in &self.0 {
            let kind = match family.kind {
                Kind::Counter => MetricType::Counter,
                Kind::Gauge => MetricType::Gauge,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
            for series in &family.series {
                let labels: Vec<(&str, &str)> =
                    series.labels.iter().map(|(name, value)| (*name, value.as_str())).collect();
                if labels.is_empty() {
                    write(&mut metric, family.kind, &series.value)?;
                } else {
                    write(&mut metric.encode_family(&labels)?, family.kind, &series.value)?;
                }
            }
        }
        Ok(())
    }
}

fn write(metric: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> Result<(), std::fmt::Error> {
    match (value, kind) {
        (Value::Whole(number), Kind::Counter) => metric.encode_counter::<NoLabelSet, _, u64>(number, None),
        (Value::Fraction(number), Kind::Counter) => metric.encode_counter::<NoLabelSet, _, u64>(number, None),
        (Value::Whole(number), Kind::Gauge | Kind::Histogram) => metric.encode_gauge(number),
        (Value::Fraction(number), Kind::Gauge | Kind::Histogram) => metric.encode_gauge(number),
        (Value::Histogram { bounds, counts, sum }, _) => {
            let bounds = bounds.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(counts.iter().copied()).collect();
            metric.encode_histogram::<NoLabelSet>(*sum, counts.iter().sum(), &buckets, None)
        }
    }
}
