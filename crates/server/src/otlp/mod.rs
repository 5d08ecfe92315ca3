//! Traces and metrics for an OpenTelemetry collector, over OTLP (HTTP, protobuf).
//!
//! Spans are made from access records, so a request does not wait for them and every request that is recorded has
//! one; metrics are the families of `/metrics`. Both are sent by one thread. What cannot be sent is dropped: the log
//! says so once, and once again when the collector answers. The messages are those of `opentelemetry-proto`; its SDK is
//! not used, because it would count and time everything a second time.

mod convert;
mod send;

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use opentelemetry_proto::tonic::trace::v1::Span;
use tavola_model::Clock;
use tavola_telemetry::{AccessRecord, RecordSink};

use crate::metrics::{self, MetricSources};
use convert::Identity;
use send::Collector;

/// How often metrics are sent.
const METRICS_EVERY: Duration = Duration::from_secs(15);
/// How often spans are sent that are fewer than a batch.
const SPANS_EVERY: Duration = Duration::from_secs(2);
/// Spans in one message.
const SPANS_SENT_MAX: usize = 512;
/// Spans that wait; the oldest are dropped.
const SPANS_WAITING_MAX: usize = 8_192;

/// Collects spans for the thread that sends them.
pub struct Otlp {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    spans: VecDeque<Span>,
    is_closed: bool,
}

/// The thread that sends, until it is closed.
pub struct Sending {
    otlp: Arc<Otlp>,
    thread: JoinHandle<()>,
}

impl Otlp {
    /// Nothing collected yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new() })
    }

    /// Starts to send to a collector.
    pub fn start(
        self: &Arc<Self>,
        endpoint: &str,
        sources: MetricSources,
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<Sending> {
        let collector = Collector::new(endpoint)?;
        let otlp = self.clone();
        let run = move || otlp.run(&collector, &sources, &*clock);
        let thread =
            std::thread::Builder::new().name("otlp".into()).spawn(run).context("cannot start a thread")?;
        Ok(Sending { otlp: self.clone(), thread })
    }

    fn run(&self, collector: &Collector, sources: &MetricSources, clock: &dyn Clock) {
        let identity = Identity::new(clock.now());
        let mut metrics_at = clock.monotonic();
        loop {
            let (spans, is_closed) = self.take();
            if !spans.is_empty() {
                collector.send_spans(identity.spans(spans));
            }
            if is_closed || clock.monotonic() >= metrics_at {
                metrics_at = clock.monotonic() + METRICS_EVERY;
                collector.send_metrics(identity.metrics(metrics::families(sources), clock.now()));
            }
            if is_closed && self.lock().spans.is_empty() {
                return;
            }
        }
    }

    /// Waits for a batch, for the time that a smaller one may wait, or for the end.
    fn take(&self) -> (Vec<Span>, bool) {
        let is_short = |state: &mut State| state.spans.len() < SPANS_SENT_MAX && !state.is_closed;
        let waited = self.changed.wait_timeout_while(self.lock(), SPANS_EVERY, is_short);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let count = state.spans.len().min(SPANS_SENT_MAX);
        (state.spans.drain(..count).collect(), state.is_closed)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecordSink for Otlp {
    fn observe(&self, records: &[AccessRecord]) {
        let mut state = self.lock();
        for record in records {
            state.spans.extend(convert::spans_of(record));
        }
        let excess = state.spans.len().saturating_sub(SPANS_WAITING_MAX);
        state.spans.drain(..excess);
        if state.spans.len() >= SPANS_SENT_MAX {
            self.changed.notify_one();
        }
    }
}

impl Sending {
    /// Sends what is left and ends the thread.
    pub fn close(self) {
        self.otlp.lock().is_closed = true;
        self.otlp.changed.notify_one();
        if self.thread.join().is_err() {
            tracing::error!("the thread that sends to the OpenTelemetry collector has panicked");
        }
    }
}

#[cfg(test)]
mod tests;
