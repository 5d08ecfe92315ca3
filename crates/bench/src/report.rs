//! What a run found: figures of every contestant, and ratios against their targets.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::AnyError;
use crate::compare::{Range, Series, figure};
use crate::load::latencies;

/// What a figure should be.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// Told, not judged.
    None,
}

impl Bound {
    fn is_met(self, figure: f64) -> Option<bool> {
        match self {
            Bound::AtLeast(bound) => Some(figure >= bound),
            Bound::AtMost(bound) => Some(figure <= bound),
            Bound::None => None,
        }
    }

    fn text(self) -> String {
        match self {
            Bound::AtLeast(bound) => format!("≥ {bound}"),
            Bound::AtMost(bound) => format!("≤ {bound}"),
            Bound::None => "–".to_owned(),
        }
    }
}

/// A figure with its target.
#[derive(Clone, Debug)]
pub struct Check {
    pub work: String,
    /// What the figure is: `× bare hyper, requests/s`.
    pub measure: String,
    pub range: Range,
    pub bound: Bound,
}

/// All figures of a run.
#[derive(Debug, Default)]
pub struct Report {
    checks: Vec<Check>,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

/// What one contestant did at one kind of work.
#[derive(Debug)]
struct Figure {
    work: String,
    name: &'static str,
    rate: Range,
    cpu_micros: Range,
    /// Microseconds: half, 99 %, 99.9 %, all; of whole-table queries there are too few to tell.
    latency: Option<[u64; 4]>,
}

impl Report {
    /// Keeps the figures of everyone who took part in some work.
    pub fn add_series(&mut self, work: &str, all: &[Series]) -> Result<(), AnyError> {
        for series in all {
            let mut latency = latencies();
            for round in &series.rounds {
                latency.add(&round.latency)?;
            }
            let figure = Figure {
                work: work.to_owned(),
                name: series.name,
                rate: Range::of(&series.rates()).ok_or("no round was measured")?,
                cpu_micros: Range::of(&series.cpu_micros()).ok_or("no round was measured")?,
                latency: (!latency.is_empty())
                    .then(|| [0.5, 0.99, 0.999, 1.0].map(|quantile| latency.value_at_quantile(quantile))),
            };
            println!("{}", figure.line());
            self.figures.push(figure);
        }
        Ok(())
    }

    /// Keeps a figure with its target; `None` is what could not be measured.
    pub fn check(&mut self, work: &str, measure: &str, range: Option<Range>, bound: Bound) {
        match range {
            Some(range) => {
                let check = Check { work: work.to_owned(), measure: measure.to_owned(), range, bound };
                println!("  {}: {} {} (target {})", check.work, check.range, check.measure, bound.text());
                self.checks.push(check);
            }
            None => self.note(format!("{work}: {measure} could not be measured")),
        }
    }

    /// Keeps a remark.
    pub fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        println!("  {note}");
        self.notes.push(note);
    }

    /// Both tables as text.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| work | contestant | requests/s | p50 / p99 / p99.9 / max, ms | CPU µs a request |"
        );
        let _ = writeln!(text, "|---|---|---|---|---|");
        for figure in &self.figures {
            let _ = writeln!(text, "{}", figure.line());
        }
        let _ = writeln!(text, "\n| work | measure | median (min – max) | target | |");
        let _ = writeln!(text, "|---|---|---|---|---|");
        for check in &self.checks {
            let Check { work, measure, range, bound } = check;
            let verdict = match bound.is_met(range.median) {
                Some(true) => "met",
                Some(false) => "**not met**",
                None => "",
            };
            let _ = writeln!(text, "| {work} | {measure} | {range} | {} | {verdict} |", bound.text());
        }
        for note in &self.notes {
            let _ = writeln!(text, "\n{note}");
        }
        text
    }

    /// Everything, for programs.
    pub fn to_json(&self) -> Value {
        let range = |range: &Range| json!({ "min": range.min, "median": range.median, "max": range.max });
        let figures = self.figures.iter().map(|figure| {
            json!({
                "work": figure.work, "contestant": figure.name, "requests_per_second": range(&figure.rate),
                "cpu_micros_per_request": range(&figure.cpu_micros), "latency_micros_p50_p99_p999_max": figure.latency,
            })
        });
        let checks = self.checks.iter().map(|check| {
            json!({
                "work": check.work, "measure": check.measure, "range": range(&check.range),
                "target": check.bound.text(), "met": check.bound.is_met(check.range.median),
            })
        });
        json!({
            "machine": machine(), "figures": figures.collect::<Vec<_>>(), "checks": checks.collect::<Vec<_>>(), "notes": self.notes,
        })
    }
}

/// The processor and how many cores of it there are.
pub fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores of {}", model.trim_start_matches([' ', '\t', ':']))
}

impl Figure {
    fn line(&self) -> String {
        let millis = |micros: u64| figure(micros as f64 / 1000.0);
        let latency = self.latency.map_or("–".to_owned(), |latency| latency.map(millis).join(" / "));
        let Figure { work, name, rate, cpu_micros, .. } = self;
        format!("| {work} | {name} | {rate} | {latency} | {cpu_micros} |")
    }
}
