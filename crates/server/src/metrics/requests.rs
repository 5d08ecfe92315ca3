//! Figures of requests and of what carries them.

use tavola_frontend::FrontendMetrics;
use tavola_model::StorageService;
use tavola_telemetry::{CountsReading, PLAN_KINDS, SERVICES, STATUS_CLASSES, ServiceReading};

use super::family::{Family, Kind, Series, Value};

/// What was counted of requests.
pub fn families(reading: &CountsReading) -> Vec<Family> {
    let operations = &reading.operations;
    let of_operation = |service: StorageService, operation: &str| {
        vec![("service", word(service).to_owned()), ("operation", operation.to_owned())]
    };
    let by_status = operations.iter().flat_map(|read| {
        let counts = STATUS_CLASSES.iter().zip(read.statuses).filter(|(_, count)| *count > 0);
        counts.map(move |(status, count)| {
            let mut labels = of_operation(read.service, read.operation);
            labels.push(("status", (*status).to_owned()));
            Series { labels, value: Value::Whole(count) }
        })
    });
    let latencies = operations.iter().map(|read| Series {
        labels: of_operation(read.service, read.operation),
        value: Value::seconds(&read.latency),
    });
    let by_service = |value: fn(&ServiceReading) -> Value| -> Vec<Series> {
        let labels = |service: StorageService| vec![("service", word(service).to_owned())];
        let services = SERVICES.into_iter().zip(&reading.services);
        services.map(|(service, read)| Series { labels: labels(service), value: value(read) }).collect()
    };
    let plans = PLAN_KINDS.iter().zip(reading.plans).map(|(kind, count)| Series {
        labels: vec![("plan", kind.as_str().to_owned())],
        value: Value::Whole(count),
    });
    let codes = reading.codes.iter().map(|(code, count)| Series {
        labels: vec![("code", (*code).to_owned())],
        value: Value::Whole(*count),
    });
    const SERVICE: &[&str] = &["service"];
    vec![
        Family::labelled(
            "tavola_requests_total",
            Kind::Counter,
            "Requests that were answered, by class of status; `none` for those whose client disconnected before",
            &["service", "operation", "status"],
            by_status.collect(),
        ),
        Family::labelled(
            "tavola_request_duration_seconds",
            Kind::Histogram,
            "Time from the head of a request to the end of its answer",
            &["service", "operation"],
            latencies.collect(),
        ),
        Family::labelled(
            "tavola_request_queue_seconds",
            Kind::Histogram,
            "Time from the head of a request to the start of its execution: its body, its signature, the wait for memory",
            SERVICE,
            by_service(|read| Value::seconds(&read.queued)),
        ),
        Family::labelled(
            "tavola_requests_in_flight",
            Kind::Gauge,
            "Requests that are being answered now",
            SERVICE,
            by_service(|read| Value::Whole(read.in_flight)),
        ),
        Family::labelled(
            "tavola_throttled_requests_total",
            Kind::Counter,
            "Requests that were refused because of load (`ServerBusy`, `OperationTimedOut`)",
            SERVICE,
            by_service(|read| Value::Whole(read.throttled)),
        ),
        Family::labelled(
            "tavola_errors_total",
            Kind::Counter,
            "Requests that were refused, by error code",
            &["code"],
            codes.collect(),
        ),
        Family::labelled(
            "tavola_request_body_bytes_total",
            Kind::Counter,
            "Bytes of the bodies of requests",
            SERVICE,
            by_service(|read| Value::Whole(read.bytes_in)),
        ),
        Family::labelled(
            "tavola_response_body_bytes_total",
            Kind::Counter,
            "Bytes of the bodies of answers",
            SERVICE,
            by_service(|read| Value::Whole(read.bytes_out)),
        ),
        Family::labelled(
            "tavola_query_plans_total",
            Kind::Counter,
            "Queries and reads of entities, by the most expensive kind of access that they needed",
            &["plan"],
            plans.collect(),
        ),
        Family::labelled(
            "tavola_rows_scanned_total",
            Kind::Counter,
            "Entities, messages and names that were read from the store to answer requests",
            SERVICE,
            by_service(|read| Value::Whole(read.rows_scanned)),
        ),
        Family::labelled(
            "tavola_rows_returned_total",
            Kind::Counter,
            "Entities, messages and names in answers, or written",
            SERVICE,
            by_service(|read| Value::Whole(read.rows_returned)),
        ),
    ]
}

/// How many requests leave a record.
pub fn of_recorder(one_in: u32, dropped: u64) -> Vec<Family> {
    vec![
        Family::gauge(
            "tavola_access_record_interval",
            "One request in this many is recorded for the console, the advisor and traces; more than 1 under load",
            u64::from(one_in),
        ),
        Family::counter(
            "tavola_access_records_dropped_total",
            "Requests without a record because the queue of records was full",
            dropped,
        ),
    ]
}

/// What the logs of Storage Analytics lack.
pub fn of_analytics(left_out: u64) -> Vec<Family> {
    vec![Family::counter(
        "tavola_analytics_lines_left_out_total",
        "Requests that are in no log of Storage Analytics, because lines came faster than they could be written",
        left_out,
    )]
}

/// What is open and held.
pub fn of_frontend(metrics: &FrontendMetrics) -> Vec<Family> {
    let held = [("request", metrics.request_bytes), ("response", metrics.response_bytes)];
    let held = held.map(|(direction, bytes)| Series {
        labels: vec![("direction", direction.to_owned())],
        value: Value::Whole(bytes),
    });
    vec![
        Family::gauge("tavola_connections", "Connections that are open", metrics.connections),
        Family::gauge(
            "tavola_connections_max",
            "Connections that can be open; beyond it idle ones are closed",
            metrics.connections_max,
        ),
        Family::labelled(
            "tavola_transfer_bytes",
            Kind::Gauge,
            "Bytes of large requests and answers that are in memory",
            &["direction"],
            held.into(),
        ),
        Family::gauge(
            "tavola_transfer_bytes_max",
            "Bytes of `tavola_transfer_bytes` at most, for each direction",
            metrics.transfer_bytes_max,
        ),
    ]
}

/// The word for a service in labels.
pub fn word(service: StorageService) -> &'static str {
    match service {
        StorageService::Table => "table",
        StorageService::Queue => "queue",
        StorageService::Blob => "blob",
    }
}
