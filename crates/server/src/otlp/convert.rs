//! From access records to spans, and from families of figures to OTLP metrics.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use tavola_model::{DateTime, Guid, StorageService};
use tavola_telemetry::{AccessRecord, UNKNOWN_OPERATION};

use crate::metrics::{Family, Kind, Series, Value};

/// Who the messages are from, and since when it counts.
pub(super) struct Identity {
    started: DateTime,
}

impl Identity {
    pub fn new(started: DateTime) -> Self {
        Self { started }
    }

    /// A message with spans.
    pub fn spans(&self, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let scope_spans = vec![ScopeSpans { scope: Some(scope()), spans, ..ScopeSpans::default() }];
        let resource = Some(resource());
        let of_resource = ResourceSpans { resource, scope_spans, ..ResourceSpans::default() };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }
    }

    /// A message with metrics.
    pub fn metrics(&self, families: Vec<Family>, now: DateTime) -> ExportMetricsServiceRequest {
        let times = (unix_nanos(self.started), unix_nanos(now));
        let metrics = families.into_iter().map(|family| metric(family, times)).collect();
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics, ..ScopeMetrics::default() }];
        let resource = Some(resource());
        let of_resource = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
        ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
    }
}

fn resource() -> Resource {
    let attributes = vec![text("service.name", "tavola"), text("service.version", env!("CARGO_PKG_VERSION"))];
    Resource { attributes, ..Resource::default() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "tavola".into(), ..InstrumentationScope::default() }
}

/// The spans of a request: the whole, what came before its execution, and its execution.
///
/// The trace is that of the client, if it sent one; else it has the bytes of the request's id, so that whoever has the
/// id of an answer finds the trace.
pub(super) fn spans_of(record: &AccessRecord) -> Vec<Span> {
    let own_id = Guid::parse(&record.request_id).map_or([0; 16], |Guid(bytes)| bytes);
    if own_id == [0; 16] {
        // Refused before it had an id: there is nothing to tell it from others by.
        return Vec::new();
    }
    let (trace_id, parent) = match record.trace_parent {
        Some(parent) => (parent.trace_id, parent.span_id.to_vec()),
        None => (own_id, Vec::new()),
    };
    let span_id = |number: u8| {
        let mut id: [u8; 8] = own_id[..8].try_into().unwrap_or_default();
        id[7] ^= number;
        id.to_vec()
    };
    let start = unix_nanos(record.received);
    let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let is_failure = record.status >= 500 || record.status == 0;
    let status = Status {
        code: if is_failure { StatusCode::Error } else { StatusCode::Unset }.into(),
        message: record.code.map(|code| code.as_str().to_owned()).unwrap_or_default(),
    };
    let whole = Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id(0),
        parent_span_id: parent,
        name: record.operation.unwrap_or(UNKNOWN_OPERATION).to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: start,
        end_time_unix_nano: start + nanos(record.durations.total),
        attributes: attributes(record),
        status: Some(status),
        ..Span::default()
    };
    let part = |number: u8, name: &str, from: u64, to: u64| Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id(number),
        parent_span_id: span_id(0),
        name: name.to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: from,
        end_time_unix_nano: to,
        ..Span::default()
    };
    let mut spans = vec![whole];
    if !record.durations.queued.is_zero() {
        let executed_from = start + nanos(record.durations.queued);
        spans.push(part(1, "queue", start, executed_from));
        let executed_to = executed_from + nanos(record.durations.executed);
        spans.push(part(2, "execute", executed_from, executed_to));
    }
    spans
}

/// What a span says of its request. Keys of entities and filters are left out: whoever reads traces may not be meant
/// to read data.
fn attributes(record: &AccessRecord) -> Vec<KeyValue> {
    let service = match record.service {
        StorageService::Table => "table",
        StorageService::Queue => "queue",
        StorageService::Blob => "blob",
    };
    let mut attributes = vec![
        text("tavola.service", service),
        text("tavola.request_id", &record.request_id),
        number("http.response.status_code", u64::from(record.status)),
        number("http.request.body.size", record.bytes_in),
        number("http.response.body.size", record.bytes_out),
        number("tavola.rows_scanned", record.rows_scanned),
        number("tavola.rows_returned", record.rows_returned),
        number("tavola.record_weight", u64::from(record.weight)),
    ];
    attributes.extend(record.account.as_ref().map(|account| text("tavola.account", account.as_str())));
    attributes.extend(record.resource.as_ref().map(|resource| text("tavola.resource", resource)));
    attributes.extend(record.plan.map(|plan| text("tavola.plan", plan.kind.as_str())));
    attributes.extend(record.code.map(|code| text("tavola.error_code", code.as_str())));
    attributes.extend(record.client_request_id.as_ref().map(|id| text("tavola.client_request_id", id)));
    attributes
}

fn metric(family: Family, times: (u64, u64)) -> Metric {
    let unit = match family.name {
        name if name.ends_with("_seconds") => "s",
        name if name.ends_with("_bytes") => "By",
        _ => "1",
    };
    let cumulative = AggregationTemporality::Cumulative.into();
    let series = family.series;
    let data = match family.kind {
        Kind::Counter => Data::Sum(Sum {
            data_points: series.into_iter().filter_map(|series| point(series, times)).collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: series.into_iter().filter_map(|series| point(series, times)).collect(),
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: series.into_iter().filter_map(|series| histogram(series, times)).collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn point(series: Series, (start, now): (u64, u64)) -> Option<NumberDataPoint> {
    let value = match series.value {
        Value::Whole(number) => number_data_point::Value::AsInt(i64::try_from(number).unwrap_or(i64::MAX)),
        Value::Fraction(number) => number_data_point::Value::AsDouble(number),
        Value::Histogram { .. } => return None,
    };
    Some(NumberDataPoint {
        attributes: labels(series.labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(series: Series, (start, now): (u64, u64)) -> Option<HistogramDataPoint> {
    let Value::Histogram { bounds, counts, sum } = series.value else { return None };
    Some(HistogramDataPoint {
        attributes: labels(series.labels),
        start_time_unix_nano: start,
        time_unix_nano: now,
        count: counts.iter().sum(),
        sum: Some(sum),
        bucket_counts: counts,
        explicit_bounds: bounds,
        ..HistogramDataPoint::default()
    })
}

fn labels(labels: Vec<(&'static str, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| text(name, &value)).collect()
}

fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value.to_owned())) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

fn number(key: &str, value: u64) -> KeyValue {
    let value = any_value::Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX));
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn unix_nanos(time: DateTime) -> u64 {
    let ticks = time.ticks().saturating_sub(DateTime::from_unix_ticks(0).ticks());
    ticks.saturating_mul(100)
}
